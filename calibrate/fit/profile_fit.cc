#include "calibrate/fit/profile_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "calibrate/fit/detail/collective_records.h"
#include "calibrate/fit/detail/constant_list.h"
#include "model/base/si_unit.h"
#include "model/base/text.h"
#include "model/cost/kernel_cost.h"
#include "model/cost/measured_operators.h"
#include "model/cost/power_model.h"
#include "model/graph/graph.h"

namespace plumbline::calibrate {
namespace {

using model::toml_string;

std::string entry(std::string_view key, const model::Parameter& p) {
  const std::string uncertainty =
      p.relative_uncertainty ? fmt::format(", uncertainty = {}", *p.relative_uncertainty) : "";
  std::vector<std::string> sets;
  for (const std::string& set : p.rows) sets.push_back(toml_string(set));
  const std::string rows = sets.empty() ? "" : fmt::format(", rows = [{}]", fmt::join(sets, ", "));
  return fmt::format("{} = {{ value = {}, unit = {}, kind = {}, source = {}{}{} }}\n", key, p.value,
                     toml_string(p.unit), toml_string(to_string(p.kind)), toml_string(p.source), uncertainty, rows);
}

// Returns "[a, b]" of texts.
std::string list(const std::vector<std::string>& texts) { return fmt::format("[{}]", fmt::join(texts, ", ")); }

std::string fit_text(const model::ConstantFit& fit) {
  std::vector<std::string> entries, rows;
  for (const std::vector<std::string>& entry : fit.constants) {
    std::vector<std::string> names;
    for (const std::string& name : entry) names.push_back(toml_string(name));
    entries.push_back(names.size() == 1 ? names.front() : list(names));
  }
  for (const std::vector<double>& row : fit.correlation) {
    std::vector<std::string> numbers;
    for (const double number : row) numbers.push_back(fmt::format("{}", number));
    rows.push_back(list(numbers));
  }
  const std::string constants =
      entries.size() == 1 ? entries.front() : fmt::format("\n  {},\n", fmt::join(entries, ",\n  "));
  return fmt::format("\n[[fit]]\nconstants = [{}]\n{}", constants,
                     rows.empty() ? "" : fmt::format("correlation = {}\n", list(rows)));
}

using model::DataType;
using model::Graph;
using model::Tensor;

std::int64_t whole(const FitRecord& record, const char* name) { return static_cast<std::int64_t>(record.extent(name)); }

DataType operand_type(std::string_view format) {
  if (format == "fp8" || format == "fp8_tensor") return DataType::fp8;
  if (format.starts_with("fp8")) return DataType::fp8_tile;
  if (format == "fp32") return DataType::fp32;
  return format == "tf32" ? DataType::tf32 : format == "fp16" ? DataType::fp16 : DataType::bf16;
}

Tensor tensor(std::initializer_list<std::int64_t> extents, DataType type) {
  Tensor made{.type = type};
  for (const std::int64_t extent : extents) made.shape.push_back({extent});
  return made;
}

Graph lone_operator(model::Operator op, std::initializer_list<Tensor> reads, std::initializer_list<Tensor> writes) {
  Graph graph;
  for (const auto& [tensors, ids] : {std::pair{&reads, &op.reads}, std::pair{&writes, &op.writes}})
    for (const Tensor& each : *tensors) {
      ids->push_back(static_cast<model::TensorId>(graph.tensors.size()));
      graph.tensors.push_back(each);
    }
  graph.operators.push_back(std::move(op));
  return graph;
}

std::optional<Graph> gemm_graph(const FitRecord& record) {
  const std::int64_t m = whole(record, "m"), n = whole(record, "n"), k = whole(record, "k");
  if (m <= 0 || n <= 0 || k <= 0) return std::nullopt;
  const DataType type = operand_type(record.format);
  model::Operator op{.kind = model::OperatorKind::matmul};
  if (record.type == model::OperatorClass::weight_gradient_gemm) {
    op.phase = model::Phase::W;
    op.attributes = model::MatmulAttributes{.transpose_a = true, .accumulate = true};
    return lone_operator(std::move(op), {tensor({k, m}, type), tensor({k, n}, type)}, {tensor({m, n}, DataType::fp32)});
  }
  op.attributes = model::MatmulAttributes{.transpose_b = true};
  const DataType result = model::is_quantized(type) ? DataType::bf16 : type;
  const std::int64_t groups = record.launches > 0 ? 1 : std::max<std::int64_t>(1, whole(record, "groups"));
  if (groups == 1)
    return lone_operator(std::move(op), {tensor({m, k}, type), tensor({n, k}, type)}, {tensor({m, n}, result)});
  op.kind = model::OperatorKind::grouped_matmul;
  return lone_operator(std::move(op), {tensor({groups * m, k}, type), tensor({groups, n, k}, type)},
                       {tensor({groups * m, n}, result)});
}

std::optional<Graph> attention_graph(const FitRecord& record) {
  const std::int64_t length = whole(record, "length"), heads = whole(record, "heads");
  const std::int64_t qk = whole(record, "qk_dim"), dv = whole(record, "v_dim");
  if (length <= 0 || heads <= 0 || qk <= 0 || dv <= 0) return std::nullopt;
  const std::int64_t tokens = std::max<std::int64_t>(1, whole(record, "sequences")) * length;
  const std::int64_t shared = whole(record, "kv_heads") > 0 ? whole(record, "kv_heads") : heads;
  const Tensor q = tensor({tokens, heads, qk}, DataType::bf16), k = tensor({tokens, shared, qk}, DataType::bf16);
  const Tensor v = tensor({tokens, shared, dv}, DataType::bf16), o = tensor({tokens, heads * dv}, DataType::bf16);
  const Tensor sums = tensor({tokens, heads}, DataType::fp32);
  model::Operator op{.kind = record.kind};
  op.attributes = model::AttentionAttributes{
      .query_heads = heads, .key_value_heads = shared, .query_key_dim = qk, .value_dim = dv, .sequence_length = length};
  if (record.kind == model::OperatorKind::attention) return lone_operator(std::move(op), {q, k, v}, {o, sums});
  op.phase = model::Phase::I;
  return lone_operator(std::move(op), {o, q, k, v, o, sums}, {q, k, v});
}

std::optional<Graph> memory_graph(const FitRecord& record) {
  if (!record.measurement->bytes || record.type == model::OperatorClass::embedding) return std::nullopt;
  constexpr double bytes_of_half = 4;  // two bytes an element, read and written
  const Tensor half = tensor({std::llround(*record.measurement->bytes / bytes_of_half)}, DataType::bf16);
  return lone_operator({.kind = record.kind}, {half}, {half});
}

// Returns the graph with its one operator; nullopt where the shape of a GEMM or of attention is not stated. A GEMM of
// several kernels, one behind the other, is one of them. Memory-bound operators read half of their bytes and write
// half.
std::optional<Graph> graph_of(const FitRecord& record) {
  if (is_gemm(record.type)) return gemm_graph(record);
  return record.type == model::OperatorClass::attention ? attention_graph(record) : memory_graph(record);
}

struct Ratios {
  std::vector<double> values;         // measured over predicted
  double seconds = 0, uncertain = 0;  // predicted; and as much as its constants may be off
};

// Returns the value at that share of the sorted ones.
double at_share(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<std::size_t>(std::lround(share * static_cast<double>(sorted.size() - 1)))];
}

std::string family_of(const FitRecord& record) {
  if (record.type == model::OperatorClass::attention)
    return record.kind == model::OperatorKind::attention ? "attention" : "attention backward";
  if (!is_gemm(record.type)) return fmt::format("memory-bound: {}", to_string(record.type));
  const bool weights = record.type == model::OperatorClass::weight_gradient_gemm;
  const std::string format = record.format == "fp8_tile" ? "fp8_block" : record.format;  // its other operand's
  return fmt::format("GEMMs {}{}", format, weights ? ", weight gradients" : "");
}

// Returns how many times the operator of the record's graph runs.
double runs_of(const FitRecord& record) {
  const bool per_group = record.launches > 0 || record.type == model::OperatorClass::weight_gradient_gemm;
  return per_group ? std::max(1.0, record.extent("groups")) : 1;
}

class Comparison {
 public:
  Comparison(const FitRecords& records, const model::Profile& profile, const model::Device& device,
             const model::KernelCost& cost, const std::optional<model::PowerModel>& power,
             const model::CollectiveCost& collectives)
      : records_(records), profile_(profile), device_(device), cost_(cost), power_(power), collectives_(collectives) {}

  CardComparison run() {
    for (const auto* of_class : {&records_.gemms, &records_.attention, &records_.memory})
      for (const FitRecord& record : *of_class) add_kernel(record, graph_of(record), family_of(record));
    for (const FitRecord& record : records_.small_gemms) {
      auto graph = graph_of(record);
      if (graph) graph->inference = true;  // kernels of decoding have constants of their own
      add_kernel(record, graph, family_of(record) + ", few rows");
    }
    if (const auto gap = profile_.find("kernel.launch_gap"); gap && !records_.holds_gaps)
      for (const Measurement* m : records_.launches)
        add("gaps between kernels", m->time.p50, si_value(*gap), profile_.parameters()[*gap].relative_uncertainty);
    for (const Measurement* m : records_.collectives)
      add(fmt::format("collectives: {}", m->op), m->time.p50, collective_seconds(collectives_, *m), std::nullopt);
    CardComparison comparison{profile_.name(), {}};
    for (auto& [name, ratios] : families_) comparison.families.push_back(summary(name, ratios));
    return comparison;
  }

 private:
  double si_value(std::size_t index) const {
    const model::Parameter& parameter = profile_.parameters()[index];
    return parameter.value * model::si_unit(parameter.unit)->factor;
  }

  void add(const std::string& family, double measured, double predicted, std::optional<double> uncertainty) {
    if (predicted <= 0) return;
    Ratios& ratios = families_[family];
    ratios.values.push_back(measured / predicted);
    ratios.seconds += predicted;
    ratios.uncertain += uncertainty.value_or(0) * predicted;
  }

  // Returns the time of a kernel that is held: at the clock that the power limit leaves it.
  model::KernelTime held_time(const model::Graph& graph, std::int64_t sms) const {
    const model::Operator& op = graph.operators.front();
    const model::KernelTime burst = cost_.time(graph, op, {.sms = sms});
    if (!power_) return burst;
    return cost_.time(graph, op, {.sms = sms, .clock = power_->state(power_->window(graph, op, burst)).clock});
  }

  void add_kernel(const FitRecord& record, const std::optional<model::Graph>& graph, const std::string& family) {
    if (!graph) return;
    const std::int64_t sms = is_gemm(record.type) ? record.cores : device_.sms;
    const model::KernelTime time = held_time(*graph, sms);
    double uncertainty = 0;
    for (const model::Share& share : time.shares)
      if (share.index >= 0)
        uncertainty += share.seconds / time.seconds *
                       profile_.parameters()[static_cast<std::size_t>(share.index)].relative_uncertainty.value_or(0);
    const double one = time.seconds - (records_.holds_gaps ? 0 : time.gaps);
    add(family, record.seconds, runs_of(record) * one, uncertainty);
  }

  static ComparedFamily summary(const std::string& name, Ratios& ratios) {
    constexpr double tenth = 0.1, unstated = 0.1, between_cards = 0.05;
    std::ranges::sort(ratios.values);
    const double stated = ratios.uncertain / ratios.seconds;
    return {.name = name,
            .records = ratios.values.size(),
            .median = at_share(ratios.values, 0.5),
            .low = at_share(ratios.values, tenth),
            .high = at_share(ratios.values, 1 - tenth),
            .allowed = stated > 0 ? std::max(stated, between_cards) : unstated,
            .stated = stated > 0};
  }

  const FitRecords& records_;
  const model::Profile& profile_;
  const model::Device& device_;
  const model::KernelCost& cost_;
  const std::optional<model::PowerModel>& power_;
  const model::CollectiveCost& collectives_;
  std::map<std::string, Ratios> families_;
};

}  // namespace

// Adds operators; one that was measured several times gets the median of its times.
void add_measured_operators(const FitRecords& records, ConstantList& constants, ProfileFit& result) {
  using model::MeasuredOperators;
  const bool gpu = records.machine == MachineKind::gpu;
  std::map<std::pair<std::string, MeasuredOperators::Place>, std::vector<const FitRecord*>> operators;
  const auto add = [&operators](const std::vector<FitRecord>& of_class, bool overlapped) {
    for (const FitRecord& record : of_class)
      if (!record.key.empty()) operators[{record.key, {record.cores, overlapped}}].push_back(&record);
  };
  for (const auto* of_class :
       {&records.gemms, &records.attention, &records.memory, &records.divided, &records.routers, &records.together})
    add(*of_class, false);
  if (gpu) {
    add(records.overlapped, true);
    add(records.together_overlapped, true);
  }
  for (auto& [name, found] : operators) {
    const auto middle = found.begin() + static_cast<std::ptrdiff_t>(found.size() / 2);
    std::ranges::nth_element(found, middle, {}, &FitRecord::seconds);
    const double spread = relative_spread(*(*middle)->measurement);
    const auto unit = gpu ? MeasuredOperators::Unit::sms : MeasuredOperators::Unit::cores;
    constants.add(MeasuredOperators::name(name.first, name.second, unit), (*middle)->seconds,
                  spread > 0 ? std::optional(spread) : std::nullopt, model::Evidence::measured, "mean of its samples",
                  "kernel.shortest");
  }
  result.measured_operators = operators.size();
}

ProfileFit fit_profile(const FitRecords& records, const model::Profile& base, const std::string& source) {
  ProfileFit result;
  result.notes = records.notes;
  ConstantList constants(base, source);
  fit_memory(records, constants, result);
  if (records.machine == MachineKind::gpu)
    fit_tile_gemms(records, constants, result);
  else
    fit_core_gemms(records, constants, result);
  fit_attention(records, constants, result);
  fit_single_times(records, constants, result);
  fit_interference(records, constants, result);
  fit_transfers(records, constants, result);
  add_measured_operators(records, constants, result);
  result.parameters = constants.take();
  return result;
}

std::string profile_text(const ProfileHeading& heading, std::vector<model::Parameter> parameters,
                         const std::vector<model::ConstantFit>& fits) {
  const auto section_of = [](const std::string& of) { return of.substr(0, of.rfind('.')); };
  std::ranges::sort(parameters, {}, [&](const model::Parameter& p) { return std::pair(section_of(p.name), p.name); });
  std::string text;
  for (const std::string& line : heading.about) text += fmt::format("# {}\n", line);
  text += fmt::format("name = {}\ndescription = {}\nextends = {}\n", toml_string(heading.name),
                      toml_string(heading.description), toml_string(heading.extends));
  std::vector<std::string> devices;
  for (const std::string& device : heading.devices) devices.push_back(toml_string(device));
  if (!devices.empty()) text += fmt::format("devices = [{}]\n", fmt::join(devices, ", "));
  if (!heading.stack.empty()) text += fmt::format("stack = {}\n", toml_string(heading.stack));
  std::string section;
  for (const model::Parameter& parameter : parameters) {
    const std::string own = section_of(parameter.name);
    if (own != section) text += fmt::format("\n[{}]\n", own);
    section = own;
    text += entry(std::string_view(parameter.name).substr(own.size() + 1), parameter);
  }
  for (const model::ConstantFit& fit : fits) text += fit_text(fit);
  return text;
}

std::string profile_text(const std::string& name, const std::string& description, const std::string& extends,
                         std::vector<model::Parameter> parameters) {
  return profile_text({name, description, extends}, std::move(parameters));
}

model::Result<CardComparison> compare_card(const FitRecords& records, const model::Profile& profile,
                                           const model::Device& device) {
  const auto cost = TRY(model::KernelCost::make(profile, device));
  const auto power = TRY(model::PowerModel::make(profile, {.given = std::nullopt, .usual = device.tdp}));
  return Comparison(records, profile, device, cost, power, TRY(collectives_of(profile))).run();
}

}  // namespace plumbline::calibrate
