#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "calibrate/fit/detail/constant_list.h"
#include "calibrate/fit/detail/gpu_records.h"
#include "calibrate/fit/profile_fit.h"
#include "model/base/text.h"
#include "model/cost/collective_cost.h"
#include "model/cost/forms/kernel_forms.h"
#include "model/cost/measured_operators.h"
#include "model/graph/graph.h"

namespace plumbline::calibrate {
namespace {

using model::OperatorClass;
using model::OperatorKind;

// Returns what was chosen of a kernel, its cache state aside.
std::string case_of(const Measurement& m) {
  std::string text = fmt::format("{} {} {} {} {}", m.op, m.phase, m.format, m.case_line, m.target_sms.value_or(0));
  for (const auto& [name, extent] : m.shape) text += fmt::format(" {}={}", name, extent);
  return text;
}

// Returns whether a concurrent copy is like a transfer: its kernel holds SMs and moves data as fast as it can.
bool like_transfer(const Measurement& m) {
  return !model::contains(m.case_line, "by=green") && !model::contains(m.case_line, "copy_gbps=") &&
         m.copy_to == "device";
}

class Sweep {
 public:
  // The files must outlive the object.
  explicit Sweep(const std::vector<Measurements>& files) {
    for (const Measurements& file : files) {
      constexpr double microsecond = 1e-6;
      const double events = environment_number(file, "event_pair_us") * microsecond;
      for (const Measurement& m : file.values) {
        if (m.cache == "cold") cold_.insert(case_of(m));
        if (m.cache == "cold" && events < m.time.p50 / 2) events_[&m] = events;
        if (m.variant == "alone") alone_.try_emplace(m.case_line, &m);
      }
    }
  }

  static constexpr const char* with_copy = "overlapped with a copy, or in turns with one";

  // Returns why no constant is fitted to a record; empty for a record that is used.
  std::string unused(const Measurement& m) const {
    if (m.check && !m.check->ok) return "wrong results";
    if (m.op == "launch" && m.variant == "graph_node") return "gaps in a graph";
    if (m.op == "cached_attention") return "plumbline's own kernel, where engines have faster ones";
    if (m.op == "launch") return "";
    if (m.variant == "alone") return m.op == "gemm" || m.op == "attention" ? "" : with_copy;
    if (m.variant == "sustained") return "held for seconds";
    if (model::contains(m.case_line, "rows_by=zipf")) return "uneven rows";
    if (model::contains(m.case_line, "way=grouped")) return "all groups in one call";
    if (m.communication_sms.value_or(0) > 0) return alone(m) != nullptr && like_transfer(m) ? "" : with_copy;
    if (m.cache == "hot" && cold_.contains(case_of(m)))
      return "operands in the cache, of cases that were measured from memory too";
    return "";
  }

  // Returns the same kernel alone, of a record that was taken in turns with it; nullptr when there is none.
  const Measurement* alone(const Measurement& m) const {
    if (m.case_line.empty()) return nullptr;
    const auto found = alone_.find(m.case_line);
    return found == alone_.end() ? nullptr : found->second;
  }

  // Returns the seconds of one execution, without the events around it where the operands were not in the cache: hot
  // records of short kernels are timed in graphs without events.
  double seconds(const Measurement& m) const {
    const auto found = events_.find(&m);
    return typical_seconds(m) - (found == events_.end() ? 0 : found->second);
  }

 private:
  std::set<std::string> cold_;                       // cases that were measured with their operands in memory
  std::map<std::string, const Measurement*> alone_;  // by case line
  std::map<const Measurement*, double> events_;      // seconds of a pair of events, which cold records hold
};

// Returns the operator of a plan with this name; nullopt when there is none.
std::optional<OperatorKind> named_operator(std::string_view op) {
  if (op == "gemm") return OperatorKind::matmul;
  for (int i = 0; i <= static_cast<int>(OperatorKind::copy_to_device); ++i)
    if (to_string(static_cast<OperatorKind>(i)) == op) return static_cast<OperatorKind>(i);
  return std::nullopt;
}

// Returns the operator whose constants the record of a single kernel determines; nullopt when there is none.
std::optional<OperatorKind> operator_of(const Measurement& m) {
  if (m.op == "quantise") return OperatorKind::cast;
  if (m.op == "copy") return OperatorKind::assemble_heads;  // the class of copies
  if (m.op == "permute") return OperatorKind::gather_rows;  // the class of permutations; no map is made
  if (m.op == "attention" && m.phase == "B") return OperatorKind::attention_grad;
  return named_operator(m.op);
}

// Variants of a GPU's operator of a step: timed alone, or while the step's other streams were busy.
constexpr std::string_view in_step = "in_step", in_step_overlapped = "in_step_beside";

bool of_step(const Measurement& m) { return m.variant == in_step || m.variant == in_step_overlapped; }

// Returns whether kernels for few rows run the GEMM: forms of training steps do not describe it. One without a phase is
// taken as forward.
bool of_few_rows(const FitRecord& record) {
  const std::string& phase = record.measurement->phase;
  return record.type == OperatorClass::gemm && (phase.empty() || phase == "F") &&
         record.extent("m") <= model::small_gemm_rows;
}

// Formats of GEMMs that have constants of their own; a record without one is taken as BF16.
constexpr std::array<std::string_view, 9> fitted_formats = {"bf16", "fp16",       "tf32",      "fp32",    "fp8",
                                                            "",     "fp8_tensor", "fp8_block", "fp8_tile"};

bool known_format(const FitRecord& record) {
  return !is_gemm(record.type) || std::ranges::find(fitted_formats, record.format) != fitted_formats.end();
}

bool of_host(const Measurement& m) { return m.variant == "wall" || m.variant == "cpu" || m.variant == "simulated"; }

// Returns the clock, which all records of one profile share; empty for a GPU.
std::string clock_of(const Measurement& m) { return of_host(m) ? m.variant : ""; }

// Returns the class, which follows from kind and phase alone, except for casts to formats that no host record has.
OperatorClass class_of(OperatorKind kind, std::string_view phase) {
  model::Graph graph;
  graph.tensors.push_back({.name = "x", .type = model::DataType::fp32});
  const model::Phase of = phase == "W" ? model::Phase::W : phase == "I" ? model::Phase::I : model::Phase::F;
  return operator_class(graph, {.kind = kind, .phase = of, .reads = {0}, .writes = {0}});
}

// Returns the third word of a key: "fp32" of "matmul-F-fp32-...".
std::string format_in(std::string_view key) {
  for (int word = 0; word < 2; ++word) key.remove_prefix(std::min(key.size(), key.find('-') + 1));
  return std::string(key.substr(0, key.find('-')));
}

std::int64_t cores_of(const Measurement& m, OperatorClass type) {
  const std::int64_t all = m.sms.value_or(1), held = m.communication_sms.value_or(0);
  if (of_host(m)) return all;
  if (type == OperatorClass::exchange) return held;
  if (m.variant == in_step_overlapped || (!of_step(m) && held > 0)) return all - held;
  const std::int64_t target = m.target_sms.value_or(0);
  return is_gemm(type) && target > 0 ? target : all;
}

FitRecord record_of(const Measurement& m, OperatorKind kind, OperatorClass type) {
  FitRecord record{.measurement = &m, .kind = kind, .type = type, .format = m.format};
  if (m.case_line.starts_with(fmt::format("{}-{}-", m.op, m.phase))) {
    record.key = m.case_line;
    record.format = format_in(record.key);
  }
  record.cores = cores_of(m, type);
  record.seconds = typical_seconds(m);
  return record;
}

class Sorter {
 public:
  explicit Sorter(const Sweep& sweep) : sweep_(sweep) {}

  void add(const Measurement& m) { of_host(m) || of_step(m) ? add_operator(m) : add_single(m); }

  FitRecords finish() {
    for (const auto& [why, by_operation] : left_) {
      std::vector<std::string> parts;
      for (const auto& [op, count] : by_operation)
        parts.push_back(parts.empty() ? fmt::format("{} record{} of {}", count, count == 1 ? "" : "s", op)
                                      : fmt::format("{} of {}", count, op));
      found_.notes.push_back(
          fmt::format("no constant uses {}{}{}", fmt::join(parts, ", "), why.empty() ? "" : ": ", why));
    }
    return std::move(found_);
  }

 private:
  // Adds an operator of a plan, or of a host.
  void add_operator(const Measurement& m) {
    if (m.op == "launch") return found_.launches.push_back(&m);
    if (m.op == "message" && extent_of(m, "bytes") > 0) return found_.messages.push_back(&m);
    const auto kind = named_operator(m.op);
    if (!kind) return leave(m);
    const OperatorClass type = class_of(*kind, m.phase);
    const bool together = type == OperatorClass::exchange || type == OperatorClass::collective;
    if (FitRecord record = record_of(m, *kind, type); together && !record.key.empty())
      return (m.variant == in_step_overlapped ? found_.together_overlapped : found_.together)
          .push_back(std::move(record));
    if (type == OperatorClass::exchange && extent_of(m, "bytes") > 0) return found_.all_to_alls.push_back(&m);
    if (type == OperatorClass::collective) {
      if (extent_of(m, "bytes") <= 0 || extent_of(m, "ranks") < 2) return leave(m);
      return found_.collectives.push_back(&m);
    }
    add_kernel(m, record_of(m, *kind, type));
  }

  // Adds a kernel that a GPU ran by itself.
  void add_single(const Measurement& m) {
    if (const std::string why = sweep_.unused(m); !why.empty()) return leave(m, why);
    if (m.variant == "alone") return;  // the record in turns with it has its time
    if (m.op == "launch")
      return (m.variant == "host_call"    ? found_.launch_calls
              : m.variant == "round_trip" ? found_.round_trips
                                          : found_.launches)
          .push_back(&m);
    if (m.op == "graph" && m.variant == "host_call") return found_.graph_calls.push_back(&m);
    if (model::parse_collective(m.op)) {
      if (extent_of(m, "bytes") <= 0 || extent_of(m, "ranks") < 2) return leave(m, "one rank uses no link");
      return found_.collectives.push_back(&m);
    }
    const auto kind = operator_of(m);
    if (!kind) return leave(m);
    FitRecord record = record_of(m, *kind, class_of(*kind, m.phase));
    record.launches = m.op == "gemm" ? std::max(1.0, extent_of(m, "groups")) : 1;  // one kernel a group
    record.seconds = sweep_.seconds(m);
    if (const Measurement* alone = sweep_.alone(m); alone != nullptr) record.alone_seconds = sweep_.seconds(*alone);
    if (!of_few_rows(record) || !known_format(record)) return add_kernel(m, std::move(record));
    found_.small_gemms.push_back(std::move(record));
  }

  void leave(const Measurement& m, const std::string& why = "") { ++left_[why][m.op]; }

  void add_kernel(const Measurement& m, FitRecord record) {
    if (!known_format(record)) {
      if (of_step(m) && !record.key.empty()) return found_.divided.push_back(std::move(record));
      return leave(m, fmt::format("format '{}' is not bf16, fp16, tf32, fp32, fp8_tensor or fp8_block", record.format));
    }
    const bool gemm = is_gemm(record.type);
    const bool complete = gemm                                      ? record.extent("k") > 0
                          : record.type == OperatorClass::attention ? m.flops.has_value()
                                                                    : m.bytes.has_value();
    const bool router = record.type == OperatorClass::router;
    const bool divided = of_step(m) && !complete && !router && !record.key.empty();
    if (record.type < OperatorClass::exchange && divided) return found_.divided.push_back(std::move(record));
    if (record.type >= OperatorClass::exchange || (!complete && !router)) return leave(m);
    const bool attends = record.type == OperatorClass::attention;
    if (m.communication_sms.value_or(0) > 0) {
      if (!gemm && !attends && !of_step(m)) return leave(m, of_host(m) ? "" : Sweep::with_copy);
      return found_.overlapped.push_back(std::move(record));
    }
    (gemm      ? found_.gemms
     : attends ? found_.attention
     : router  ? found_.routers
               : found_.memory)
        .push_back(std::move(record));
  }

  const Sweep& sweep_;
  FitRecords found_;
  std::map<std::string, std::map<std::string, int>> left_;  // records that no constant uses, by reason and operation
};

// Times of a step's operators hold the gaps before them. Kernels that ran by themselves get theirs where a profile is
// made of both, so that all mean the same.
void add_gaps(FitRecords& found) {
  const auto is_step = [](const FitRecord& record) { return of_step(*record.measurement); };
  for (const auto* of_class : {&found.gemms, &found.attention, &found.memory, &found.routers, &found.overlapped})
    found.holds_gaps = found.holds_gaps || std::ranges::any_of(*of_class, is_step);
  if (!found.holds_gaps || found.launches.empty()) return;
  const double gap = found.launches.front()->time.p50;
  for (auto* of_class : {&found.gemms, &found.attention, &found.memory})
    for (FitRecord& record : *of_class)
      if (!is_step(record)) record.seconds += record.launches * gap;
}

using model::toml_string;

// Returns "[a, b]" of texts or numbers.
std::string list(const auto& values) { return fmt::format("[{}]", fmt::join(values, ", ")); }

std::vector<std::string> quoted(const std::vector<std::string>& texts) {
  std::vector<std::string> all;
  for (const std::string& text : texts) all.push_back(toml_string(text));
  return all;
}

std::string entry(std::string_view key, const model::Parameter& p) {
  const std::string uncertainty =
      p.relative_uncertainty ? fmt::format(", uncertainty = {}", *p.relative_uncertainty) : "";
  const std::string rows = p.rows.empty() ? "" : fmt::format(", rows = {}", list(quoted(p.rows)));
  return fmt::format("{} = {{ value = {}, unit = {}, kind = {}, source = {}{}{} }}\n", key, p.value,
                     toml_string(p.unit), toml_string(to_string(p.kind)), toml_string(p.source), uncertainty, rows);
}

std::string fit_text(const model::ConstantFit& fit) {
  std::vector<std::string> entries, rows;
  for (const std::vector<std::string>& entry : fit.constants) {
    const std::vector<std::string> names = quoted(entry);
    entries.push_back(names.size() == 1 ? names.front() : list(names));
  }
  for (const std::vector<double>& row : fit.correlation) rows.push_back(list(row));
  const std::string constants =
      entries.size() == 1 ? entries.front() : fmt::format("\n  {},\n", fmt::join(entries, ",\n  "));
  return fmt::format("\n[[fit]]\nconstants = [{}]\n{}", constants,
                     rows.empty() ? "" : fmt::format("correlation = {}\n", list(rows)));
}

struct Ratios {
  std::vector<double> values;         // measured over predicted
  double seconds = 0, uncertain = 0;  // predicted; and as much as its constants may be off
};

// Returns the value at that share of the sorted ones.
double at_share(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<std::size_t>(std::lround(share * static_cast<double>(sorted.size() - 1)))];
}

ComparedFamily summary(const std::string& name, Ratios& ratios) {
  constexpr double tenth = 0.1, unstated = 0.1;
  std::ranges::sort(ratios.values);
  const double stated = ratios.uncertain / ratios.seconds;
  return {.name = name,
          .records = ratios.values.size(),
          .median = at_share(ratios.values, 0.5),
          .low = at_share(ratios.values, tenth),
          .high = at_share(ratios.values, 1 - tenth),
          .allowed = stated > 0 ? std::max(stated, between_gpus) : unstated,
          .stated = stated > 0};
}

}  // namespace

model::Result<FitRecords> fit_records(const std::vector<Measurements>& files, const std::string& clock) {
  std::vector<const Measurement*> chosen;
  std::set<std::string> devices, clocks;
  std::size_t others = 0;
  std::string date;
  const bool any_host =
      std::ranges::any_of(files, [](const Measurements& file) { return std::ranges::any_of(file.values, of_host); });
  for (const Measurements& file : files) {
    for (const Measurement& m : file.values) {
      const bool known = of_host(m) || of_step(m) || !any_host;
      if (known) clocks.insert(clock_of(m));
      if (!known || (!clock.empty() && m.variant != clock)) {
        ++others;
        continue;
      }
      chosen.push_back(&m);
      devices.insert(m.device);
      constexpr std::size_t day = 10;
      date = std::max(date, m.date.substr(0, day));
    }
  }
  if (chosen.empty())
    return model::wrong_input("",
                              clock.empty()
                                  ? "no record of a time"
                                  : fmt::format("no record of a host that was timed by the clock '{}'", clock),
                              "plumbline measure -o FILE on a GPU, or plumbline measure --backend host -o FILE");
  if (devices.size() > 1)
    return model::wrong_input("", fmt::format("records of {} devices: {}", devices.size(), fmt::join(devices, ", ")),
                              "a profile is of one device: give the files of one");
  if (clock.empty() && clocks.size() > 1) {
    const bool gpu = clocks.erase("") > 0;
    return model::wrong_input(
        "", fmt::format("records of the clocks {}{}", fmt::join(clocks, ", "), gpu ? ", and of none" : ""),
        "choose by --clock");
  }
  const Sweep sweep(files);
  Sorter sorter(sweep);
  for (const Measurement* m : chosen) sorter.add(*m);
  FitRecords found = sorter.finish();
  found.device = *devices.begin();
  found.machine = of_host(*chosen.front()) ? MachineKind::host : MachineKind::gpu;
  found.clock = clock_of(*chosen.front());
  found.date = date;
  if (found.machine == MachineKind::gpu) add_gaps(found);
  if (others > 0)
    found.notes.push_back(
        fmt::format("no constant uses {} record{} of another clock, or of none", others, others == 1 ? "" : "s"));
  return found;
}

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
  if (const std::size_t few = records.small_gemms.size(); few > 0)
    result.notes.push_back(
        fmt::format("no constant uses {} record{} of gemm: few rows, whose constants come from tables of inference",
                    few, few == 1 ? "" : "s"));
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
  if (!heading.devices.empty()) text += fmt::format("devices = {}\n", list(quoted(heading.devices)));
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

model::Result<GpuComparison> compare_gpu(const FitRecords& records, const model::Profile& profile,
                                         const model::Device& device) {
  const GpuRecords gpu(records, device);
  const auto predicted = TRY(gpu.predict(profile));
  std::map<std::string, Ratios> families;
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    if (predicted[i].seconds <= 0) continue;
    Ratios& ratios = families[gpu.all()[i].family];
    ratios.values.push_back(gpu.all()[i].seconds / predicted[i].seconds);
    ratios.seconds += predicted[i].seconds;
    ratios.uncertain += predicted[i].uncertain;
  }
  GpuComparison comparison{profile.name(), {}};
  for (auto& [name, ratios] : families) comparison.families.push_back(summary(name, ratios));
  return comparison;
}

}  // namespace plumbline::calibrate
