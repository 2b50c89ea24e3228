#include "calibrate/fit/detail/gpu_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <string_view>
#include <utility>

#include "calibrate/fit/detail/constant_list.h"
#include "model/base/units.h"
#include "model/cost/kernel_cost.h"
#include "model/cost/power_model.h"
#include "model/graph/builder.h"

namespace plumbline::calibrate {
namespace {

using model::DataType;
using model::Graph;
using model::OneOperator;
using model::OperatorKind;

std::int64_t whole(const FitRecord& record, const char* name) { return static_cast<std::int64_t>(record.extent(name)); }

DataType operand_type(std::string_view format) {
  if (format == "fp8" || format == "fp8_tensor") return DataType::fp8;
  if (format.starts_with("fp8")) return DataType::fp8_tile;
  if (format == "fp32") return DataType::fp32;
  return format == "tf32" ? DataType::tf32 : format == "fp16" ? DataType::fp16 : DataType::bf16;
}

std::optional<Graph> gemm_graph(const FitRecord& record) {
  const std::int64_t m = whole(record, "m"), n = whole(record, "n"), k = whole(record, "k");
  if (m <= 0 || n <= 0 || k <= 0) return std::nullopt;
  const DataType type = operand_type(record.format);
  if (record.type == model::OperatorClass::weight_gradient_gemm)
    return OneOperator(OperatorKind::matmul, model::MatmulAttributes{.transpose_a = true, .accumulate = true},
                       model::Phase::W)
        .read({k, m}, type)
        .read({k, n}, type)
        .write({m, n}, DataType::fp32)
        .graph();
  const model::MatmulAttributes attributes{.transpose_b = true};
  const DataType result = model::is_quantized(type) ? DataType::bf16 : type;
  const std::int64_t groups = record.launches > 0 ? 1 : std::max<std::int64_t>(1, whole(record, "groups"));
  if (groups == 1)
    return OneOperator(OperatorKind::matmul, attributes)
        .read({m, k}, type)
        .read({n, k}, type)
        .write({m, n}, result)
        .graph();
  return OneOperator(OperatorKind::grouped_matmul, attributes)
      .read({groups * m, k}, type)
      .read({groups, n, k}, type)
      .write({groups * m, n}, result)
      .graph();
}

std::optional<Graph> attention_graph(const FitRecord& record) {
  const std::int64_t length = whole(record, "length"), heads = whole(record, "heads");
  const std::int64_t qk = whole(record, "qk_dim"), dv = whole(record, "v_dim");
  if (length <= 0 || heads <= 0 || qk <= 0 || dv <= 0) return std::nullopt;
  const std::int64_t tokens = std::max<std::int64_t>(1, whole(record, "sequences")) * length;
  const std::int64_t shared = whole(record, "kv_heads") > 0 ? whole(record, "kv_heads") : heads;
  const std::vector<std::int64_t> q = {tokens, heads, qk}, k = {tokens, shared, qk}, v = {tokens, shared, dv};
  const std::vector<std::int64_t> o = {tokens, heads * dv}, sums = {tokens, heads};
  constexpr DataType type = DataType::bf16;
  const model::AttentionAttributes attributes{
      .query_heads = heads, .key_value_heads = shared, .query_key_dim = qk, .value_dim = dv, .sequence_length = length};
  if (record.kind == OperatorKind::attention)
    return OneOperator(record.kind, attributes)
        .read(q, type)
        .read(k, type)
        .read(v, type)
        .write(o, type)
        .write(sums, DataType::fp32)
        .graph();
  OneOperator backward(record.kind, attributes, model::Phase::I);
  backward.read(o, type).read(q, type).read(k, type).read(v, type).read(o, type).read(sums, DataType::fp32);
  return backward.write(q, type).write(k, type).write(v, type).graph();
}

std::optional<Graph> memory_graph(const FitRecord& record) {
  if (!record.measurement->bytes || record.type == model::OperatorClass::embedding) return std::nullopt;
  constexpr double bytes_of_half = 4;  // two bytes an element, read and written
  const std::vector<std::int64_t> half = {std::llround(*record.measurement->bytes / bytes_of_half)};
  return OneOperator(record.kind).read(half, DataType::bf16).write(half, DataType::bf16).graph();
}

// Returns the graph with its one operator; nullopt where the shape of a GEMM or of attention is not stated. A GEMM of
// several kernels, one behind the other, is one of them. Memory-bound operators read half of their bytes and write
// half.
std::optional<Graph> graph_of(const FitRecord& record) {
  if (is_gemm(record.type)) return gemm_graph(record);
  return record.type == model::OperatorClass::attention ? attention_graph(record) : memory_graph(record);
}

std::string family_of(const FitRecord& record) {
  if (record.type == model::OperatorClass::attention)
    return record.kind == OperatorKind::attention ? "attention" : "attention backward";
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

// Predicts operators with one profile.
class OperatorTimes {
 public:
  static model::Result<OperatorTimes> make(const model::Profile& profile, const model::Device& device) {
    auto cost = TRY(model::KernelCost::make(profile, device));
    const auto power = TRY(model::PowerModel::make(profile, {.given = std::nullopt, .usual = device.tdp}));
    return OperatorTimes(profile, std::move(cost), power);
  }

  Predicted predict(const GpuRecord& record, bool holds_gaps) {
    model::ShapeFactors asked;
    asked.record();
    cost_.use(&asked);
    const model::KernelTime time = held_time(*record.graph, record.sms);
    Predicted made{.seconds = record.runs * (time.seconds - (holds_gaps ? 0 : time.gaps))};
    double uncertainty = 0;
    for (const model::Share& share : time.shares)
      if (share.index >= 0)
        uncertainty += share.seconds / time.seconds *
                       profile_.parameters()[static_cast<std::size_t>(share.index)].relative_uncertainty.value_or(0);
    made.uncertain = uncertainty * made.seconds;
    if (!asked.all().empty()) made.shape = asked.all().begin()->first;
    return made;
  }

 private:
  OperatorTimes(const model::Profile& profile, model::KernelCost cost, const std::optional<model::PowerModel>& power)
      : profile_(profile), cost_(std::move(cost)), power_(power) {}

  // Returns the time of a kernel that is held: at the clock that the power limit leaves it.
  model::KernelTime held_time(const model::Graph& graph, std::int64_t sms) const {
    const model::Operator& op = graph.operators.front();
    const model::KernelTime burst = cost_.time(graph, op, {.sms = sms});
    if (!power_) return burst;
    return cost_.time(graph, op, {.sms = sms, .clock = power_->state(power_->window(graph, op, burst)).clock});
  }

  const model::Profile& profile_;
  model::KernelCost cost_;
  std::optional<model::PowerModel> power_;
};

constexpr std::string_view pause = "kernel.launch_gap";

Predicted predicted_pause(const model::Profile& profile) {
  const auto gap = profile.find(pause);
  if (!gap) return {};
  const model::Parameter& constant = profile.parameters()[*gap];
  const double seconds = si_value(constant);
  return {.seconds = seconds, .uncertain = seconds * constant.relative_uncertainty.value_or(0), .shape = {}};
}

Predicted predicted_collective(const model::CollectiveCost& cost, const Measurement& m) {
  const model::CollectiveGroup ranks = group_of(m);
  return {.seconds = collective_seconds(cost, m),
          .shape = model::shape_key(model::CostFamily::collective,
                                    {static_cast<double>(*model::parse_collective(m.op)), extent_of(m, "bytes"),
                                     static_cast<double>(ranks.ranks), static_cast<double>(ranks.nodes())})};
}

std::optional<double> usable(double uncertainty) {
  constexpr int digits = 2;
  return std::isfinite(uncertainty) ? std::optional(rounded(uncertainty, digits)) : std::nullopt;
}

}  // namespace

GpuRecords::GpuRecords(const FitRecords& records, const model::Device& device)
    : device_(device), holds_gaps_(records.holds_gaps) {
  const auto add = [&](const FitRecord& record, std::string family, bool inference) {
    auto graph = graph_of(record);
    if (!graph) return;
    graph->inference = inference;  // kernels of decoding have constants of their own
    const std::int64_t sms = is_gemm(record.type) ? record.cores : device.sms;
    all_.push_back({std::move(family), record.measurement, record.seconds, std::move(graph), sms, runs_of(record)});
  };
  for (const auto* of_class : {&records.gemms, &records.attention, &records.memory})
    for (const FitRecord& record : *of_class) add(record, family_of(record), false);
  for (const FitRecord& record : records.small_gemms) add(record, family_of(record) + ", few rows", true);
  if (!holds_gaps_)
    for (const Measurement* m : records.launches)
      all_.push_back({.family = "gaps between kernels", .measurement = m, .seconds = m->time.p50, .graph = {}});
  for (const Measurement* m : records.collectives)
    all_.push_back(
        {.family = fmt::format("collectives: {}", m->op), .measurement = m, .seconds = m->time.p50, .graph = {}});
}

model::Result<std::vector<Predicted>> GpuRecords::predict(const model::Profile& profile) const {
  auto operators = TRY(OperatorTimes::make(profile, device_));
  const auto collectives = TRY(collectives_of(profile));
  std::vector<Predicted> predicted;
  for (const GpuRecord& record : all_) {
    if (record.graph)
      predicted.push_back(operators.predict(record, holds_gaps_));
    else
      predicted.push_back(model::parse_collective(record.measurement->op)
                              ? predicted_collective(collectives, *record.measurement)
                              : predicted_pause(profile));
  }
  return predicted;
}

double si_value(const model::Parameter& parameter) { return parameter.value * model::si_unit(parameter.unit)->factor; }

const model::Parameter* ConstantList::find(const std::string& name) const {
  const auto added = std::ranges::find(parameters_, name, &model::Parameter::name);
  if (added != parameters_.end()) return &*added;
  const auto index = base_.find(name);
  return index ? &base_.parameters()[*index] : nullptr;
}

void ConstantList::add(const std::string& name, double si, std::optional<double> uncertainty, model::Evidence kind,
                       const std::string& how, const std::string& like) {
  const model::Parameter* same = find(name);
  if (same == nullptr) same = find(like);
  assert(same != nullptr && "the base profile has every constant that is fitted");
  constexpr int digits = 5;
  model::Parameter parameter;
  parameter.name = name;
  parameter.value = rounded(si / model::si_unit(same->unit)->factor, digits);
  parameter.unit = same->unit;
  parameter.kind = kind;
  parameter.source = fmt::format("{}; {}", how, source_);
  if (uncertainty) parameter.relative_uncertainty = usable(*uncertainty);
  parameters_.push_back(std::move(parameter));
}

void ConstantList::add_fitted(const std::string& name, const RobustFit& fit, Eigen::Index index, const std::string& how,
                              const std::string& like) {
  if (fit.silent[static_cast<std::size_t>(index)])
    return add(name, 0, std::nullopt, model::Evidence::fitted, how + ", none distinguishes it from 0", like);
  add(name, fit.values[index], fit.uncertainty[index], model::Evidence::fitted, how, like);
}

void ConstantList::add_rate(const std::string& name, const RobustFit& fit, Eigen::Index index, const std::string& how,
                            const std::string& like) {
  if (fit.silent[static_cast<std::size_t>(index)]) return;
  add(name, 1 / fit.values[index], fit.uncertainty[index], model::Evidence::fitted, how, like);
}

double ConstantList::value(const std::string& name) const {
  const model::Parameter* parameter = find(name);
  assert(parameter != nullptr && "the base profile has every constant that is fitted");
  return si_value(*parameter);
}

bool ConstantList::has(const std::string& name) const {
  return std::ranges::find(parameters_, name, &model::Parameter::name) != parameters_.end();
}

std::optional<RobustFit> fit_family(const std::string& name, const Form& form, const Eigen::VectorXd& seconds,
                                    const Eigen::VectorXd& start, ProfileFit& result) {
  if (seconds.size() < start.size()) {
    result.notes.push_back(fmt::format("{}: {} record{}, too few for {} constants", name, seconds.size(),
                                       seconds.size() == 1 ? "" : "s", start.size()));
    return std::nullopt;
  }
  RobustFit fit = robust_fit(form, seconds, start);
  FittedFamily family{.name = name, .records = static_cast<std::size_t>(seconds.size())};
  family.errors.assign(fit.errors.begin(), fit.errors.end());
  if (seconds.size() > start.size()) {
    const Eigen::VectorXd left_out = left_out_errors(form, seconds, fit);
    family.left_out.assign(left_out.begin(), left_out.end());
  }
  result.families.push_back(std::move(family));
  return fit;
}

}  // namespace plumbline::calibrate
