// Fits GEMMs: t = launches * ramp + sum of parts * constants + written bytes / gemm.output_bandwidth, the form of
// model/cost/kernel_cost.cc. All share one ramp; the other constants are by format, weight gradients apart. On cores
// the time is that of elements, not tiles (gemm.tile = gemm.k_block = 1), and of loading operands. On a GPU it is that
// of waves of the base profile's tiles.
#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "calibrate/fit/detail/constant_list.h"
#include "calibrate/fit/detail/gpu_records.h"
#include "model/base/distinct.h"
#include "model/base/statistics.h"
#include "model/base/units.h"
#include "model/cost/collective_cost.h"
#include "model/cost/constants.h"
#include "model/cost/forms/kernel_forms.h"

namespace plumbline::calibrate {
namespace {

using Eigen::Index;

bool is_weight_gradient(const FitRecord& record) { return record.type == model::OperatorClass::weight_gradient_gemm; }

// The contribution of one record to the form.
struct Terms {
  double launches;
  std::vector<double> parts;  // factors of the constants of its entry
  double written;             // bytes
};

// The form of GEMMs on one kind of device.
struct RecordForm {
  std::vector<const char*> parts;                       // name suffixes of the constants of an entry
  std::function<std::string(const FitRecord&)> format;  // the key by which the cost functions find the entry
  std::function<Terms(const FitRecord&)> terms;
};

// Returns the profile's entry for a GEMM of this format and phase.
std::string entry_of(const RecordForm& form, const FitRecord& record) {
  return fmt::format("gemm.{}{}", form.format(record), is_weight_gradient(record) ? "_weight_gradient" : "");
}

// Returns a constant of every base profile in whose unit one with this suffix is written.
std::string like_of(const std::string& part) { return (part == ".operand_time" ? "gemm" : "gemm.bf16") + part; }

// Returns the written bytes of the result; the FP32 sum of a weight gradient is read and written.
double written_bytes(const FitRecord& record, bool half) {
  constexpr double single_bytes = 4, half_bytes = 2;
  if (is_weight_gradient(record)) return 2 * single_bytes;
  return half ? half_bytes : single_bytes;
}

RecordForm form_of_cores() {
  const auto half = [](const FitRecord& record) { return record.format == "bf16" || record.format == "fp16"; };
  return {{".wave_overhead", ".k_time", ".operand_time"},
          [half](const FitRecord& record) { return half(record) ? "bf16" : "fp32"; },
          [half](const FitRecord& record) -> Terms {
            const double groups = std::max(1.0, record.extent("groups"));
            const double elements = groups * record.extent("m") * record.extent("n");
            const double operands = groups * (record.extent("m") + record.extent("n")) * record.extent("k");
            const auto cores = static_cast<double>(record.cores);
            return {is_weight_gradient(record) ? groups : 1,  // one kernel for each expert
                    {elements / cores, elements * record.extent("k") / cores, operands / cores},
                    elements * written_bytes(record, half(record))};
          }};
}

// FP8 operands have a 16-bit result.
RecordForm form_of_tiles(double tile, double k_block) {
  const auto format = [](const FitRecord& record) {
    if (record.format == "fp8" || record.format == "fp8_tensor") return "fp8_tensor";  // one scale per tensor
    return record.format.starts_with("fp8") ? "fp8" : record.format == "fp32" ? "fp32" : "bf16";
  };
  const model::GemmConstants once{.tile_m = tile, .tile_n = tile, .k_block = k_block, .wave_overhead = 1, .k_time = 1};
  return {{".wave_overhead", ".k_time"}, format, [=](const FitRecord& record) -> Terms {
            const double groups = std::max(1.0, record.extent("groups"));
            const double usual = is_weight_gradient(record) ? groups : 1;  // one kernel for each expert
            const double launches = record.launches > 0 ? record.launches : usual;
            const model::GemmWork work{groups / launches, record.extent("m"), record.extent("n"), record.extent("k")};
            const model::GemmSeconds core = gemm_core(once, work, static_cast<double>(record.cores));
            const double written = gemm_tiles(once, work) * tile * tile;
            return {launches,
                    {launches * core.waves, launches * core.tiles},
                    launches * written * written_bytes(record, record.format != "fp32")};
          }};
}

struct GemmProblem {
  std::vector<std::string> entries;  // entries have consecutive columns, after the ramp's column
  Eigen::MatrixXd features;          // [record, 1 + parts * entries]
  Eigen::VectorXd seconds, written;  // [record]: of the whole time, and of writing
};

GemmProblem problem_of(const std::vector<FitRecord>& records, const RecordForm& form, double bandwidth) {
  GemmProblem problem;
  problem.entries = model::distinct(records, [&](const FitRecord& record) { return entry_of(form, record); });
  const auto rows = static_cast<Index>(records.size());
  const auto parts = static_cast<Index>(form.parts.size());
  problem.features = Eigen::MatrixXd::Zero(rows, 1 + parts * static_cast<Index>(problem.entries.size()));
  problem.seconds.resize(rows);
  problem.written.resize(rows);
  for (Index i = 0; i < rows; ++i) {
    const FitRecord& record = records[static_cast<std::size_t>(i)];
    const Terms terms = form.terms(record);
    const Index entry = std::ranges::find(problem.entries, entry_of(form, record)) - problem.entries.begin();
    problem.features(i, 0) = terms.launches;
    for (Index part = 0; part < parts; ++part)
      problem.features(i, 1 + parts * entry + part) = terms.parts[static_cast<std::size_t>(part)];
    problem.written[i] = terms.written / bandwidth;
    problem.seconds[i] = record.seconds;
  }
  return problem;
}

// Fits the form and adds its constants, except those of tiles; returns false when the records are too few.
bool fit_form(const FitRecords& records, const RecordForm& form, ConstantList& constants, ProfileFit& result) {
  if (records.gemms.empty()) return false;
  const double bandwidth =
      constants.value(constants.has("gemm.output_bandwidth") ? "gemm.output_bandwidth" : "memory.default.bandwidth");
  const GemmProblem problem = problem_of(records.gemms, form, bandwidth);
  const Form seconds = [&](const Eigen::VectorXd& x) -> Eigen::VectorXd {
    return problem.features * x + problem.written;
  };
  const auto fit =
      fit_family("GEMMs", seconds, problem.seconds, starting_point(problem.features, problem.seconds), result);
  if (!fit) return false;
  const std::string how = fmt::format("least squares over {} records of GEMMs", records.gemms.size());
  constants.add_fitted("gemm.ramp", *fit, 0, how);
  for (std::size_t i = 0; i < problem.entries.size(); ++i)
    for (std::size_t part = 0; part < form.parts.size(); ++part)
      constants.add_fitted(problem.entries[i] + form.parts[part], *fit,
                           static_cast<Index>(1 + form.parts.size() * i + part), how, like_of(form.parts[part]));
  return true;
}

// Copies constants to formats without records: the host computes 16-bit GEMMs in FP32, and weight gradients like other
// GEMMs.
void fill_up(const RecordForm& form, ConstantList& constants) {
  const auto copy = [&](const std::string& from, const std::string& to) {
    if (constants.has(to + ".k_time") || !constants.has(from + ".k_time")) return;
    for (const char* part : form.parts)
      constants.add(to + part, constants.value(from + part), std::nullopt, model::Evidence::assumed,
                    fmt::format("no record, taken as {}", from), "gemm.operand_time");
  };
  for (const std::string format : {"gemm.fp32", "gemm.bf16"}) {
    copy(format + "_weight_gradient", format);
    copy(format, format + "_weight_gradient");
  }
  for (const std::string phase : {"", "_weight_gradient"}) {
    copy("gemm.fp32" + phase, "gemm.bf16" + phase);
    copy("gemm.bf16" + phase, "gemm.fp32" + phase);
  }
}

using Eigen::VectorXd;
using model::OperatorKind;

// The form of memory-bound operators. Parameters: the shortest time; seconds per byte on one core by class; then, where
// records determine them, the cores that saturate the memory (at least 1) and the time of the permutation's map.
class MemoryForm {
 public:
  explicit MemoryForm(const std::vector<FitRecord>& records)
      : records_(records), classes_(model::distinct(records, &FitRecord::type)) {
    const std::vector<std::int64_t> counts = model::distinct(records, &FitRecord::cores);
    most_cores_ = static_cast<double>(std::ranges::max(counts));
    saturates_ = counts.size() > 1;
    maps_ = std::ranges::find(records, OperatorKind::permute, &FitRecord::kind) != records.end();
  }

  Index size() const { return 1 + classes() + (saturates_ ? 1 : 0) + (maps_ ? 1 : 0); }
  Index classes() const { return static_cast<Index>(classes_.size()); }
  model::OperatorClass type(Index column) const { return classes_[static_cast<std::size_t>(column - 1)]; }
  bool saturates() const { return saturates_; }
  bool maps() const { return maps_; }
  Index saturation_column() const { return 1 + classes(); }
  Index map_column() const { return size() - 1; }
  // When all records have the same number of cores, that number is taken to saturate the memory.
  double saturation(const VectorXd& x) const {
    return saturates_ ? std::clamp(x[saturation_column()], 1.0, most_cores_) : most_cores_;
  }

  VectorXd operator()(const VectorXd& x) const {
    return vector_of(records_, [&](const FitRecord& record) {
      const Index column = 1 + (std::ranges::find(classes_, record.type) - classes_.begin());
      const double cores = saturates_ ? std::min(static_cast<double>(record.cores), saturation(x)) : 1;
      double time = std::max(x[0], *record.measurement->bytes * x[column] / cores);
      if (record.kind == OperatorKind::permute) time += x[map_column()];
      return time;
    });
  }

  VectorXd start() const {
    const VectorXd seconds = seconds_of(records_);
    VectorXd x(size());
    x[0] = seconds.minCoeff();
    for (Index column = 1; column <= classes(); ++column) {
      std::vector<double> paces;
      for (const FitRecord& record : records_)
        if (record.type == type(column)) paces.push_back(record.seconds / *record.measurement->bytes);
      x[column] = model::upper_median(std::move(paces));
    }
    if (saturates_) x[saturation_column()] = std::sqrt(most_cores_);
    if (maps_) x[map_column()] = seconds.minCoeff();
    return x;
  }

 private:
  const std::vector<FitRecord>& records_;
  std::vector<model::OperatorClass> classes_;
  double most_cores_ = 1;
  bool saturates_ = false, maps_ = false;
};

// GEMM results are written at the rate of the fastest class; the rest of a GEMM's time belongs to the GEMM.
void add_output_bandwidth(const MemoryForm& form, double saturation, const RobustFit& fit, ConstantList& constants) {
  Index fastest = 1;
  for (Index column = 2; column <= form.classes(); ++column)
    if (fit.values[column] < fit.values[fastest]) fastest = column;
  if (fit.silent[static_cast<std::size_t>(fastest)]) return;
  const double cores = form.saturates() ? saturation : 1;
  constants.add("gemm.output_bandwidth", cores / fit.values[fastest], fit.uncertainty[fastest], model::Evidence::fitted,
                fmt::format("as memory.{}, the fastest class", to_string(form.type(fastest))),
                "memory.default.bandwidth");
}

// Adds a rate fitted to all classes together, for classes without a record.
void fit_default(const FitRecords& records, double saturation, ConstantList& constants, ProfileFit& result) {
  std::vector<double> paces;
  for (const FitRecord& record : records.memory) {
    const double cores = std::min(static_cast<double>(record.cores), saturation) / saturation;
    if (record.seconds > 2 * constants.value("kernel.shortest"))
      paces.push_back(record.seconds * cores / *record.measurement->bytes);
  }
  if (paces.empty()) {
    result.notes.push_back("every memory-bound record is about as short as the shortest: no bandwidth of all classes");
    return;
  }
  const VectorXd seconds = VectorXd::Map(paces.data(), static_cast<Index>(paces.size()));
  const RobustFit fit =
      robust_fit([&](const VectorXd& x) -> VectorXd { return VectorXd::Constant(seconds.size(), x[0]); }, seconds,
                 VectorXd::Constant(1, seconds.mean()));
  constants.add_rate("memory.default.bandwidth", fit, 0,
                     fmt::format("the rate of {} records of all memory-bound classes", paces.size()));
}

void add_saturation(const MemoryForm& form, const RobustFit& fit, const std::string& how, ConstantList& constants) {
  const std::string name = "memory.default.saturation_sms";
  if (form.saturates())
    constants.add(name, form.saturation(fit.values), fit.uncertainty[form.saturation_column()], model::Evidence::fitted,
                  how);
  else
    constants.add(name, form.saturation(fit.values), std::nullopt, model::Evidence::assumed,
                  "all records are of as many cores");
}

void fit_one_time(const std::string& name, const std::vector<const Measurement*>& found, ConstantList& constants,
                  ProfileFit& result) {
  if (found.empty()) return;
  std::vector<double> times;
  double spread = 0;
  for (const Measurement* m : found) {
    times.push_back(m->time.p50);
    spread = std::max(spread, relative_spread(*m));
  }
  const VectorXd seconds = VectorXd::Map(times.data(), static_cast<Index>(times.size()));
  const Form form = [&](const VectorXd& x) -> VectorXd { return VectorXd::Constant(seconds.size(), x[0]); };
  const auto fit = fit_family(name, form, seconds, VectorXd::Constant(1, seconds.mean()), result);
  constants.add(name, fit->values[0], std::max(fit->uncertainty[0], spread), model::Evidence::measured,
                fmt::format("middle of {} record{}", times.size(), times.size() == 1 ? "" : "s"), "kernel.launch_gap");
}

// Fits messages: t = latency + bytes / rate. Host collectives (model/cost/collective_cost.h, one implementation): t =
// launch + steps * time per step + bus bytes / (rate * efficiency). Expert all-to-alls: as messages, of all bytes that
// a rank sends.

// Fits t = fixed + bytes / rate; returns nullopt when the records are too few.
std::optional<RobustFit> fit_line(const std::string& name, const std::vector<const Measurement*>& records,
                                  ProfileFit& result) {
  if (records.empty()) return std::nullopt;
  const auto rows = static_cast<Index>(records.size());
  Eigen::MatrixXd features = Eigen::MatrixXd::Ones(rows, 2);
  VectorXd seconds(rows);
  for (Index i = 0; i < rows; ++i) {
    const Measurement& m = *records[static_cast<std::size_t>(i)];
    features(i, 1) = extent_of(m, "bytes");
    seconds[i] = m.time.p50;
  }
  const Form form = [&](const VectorXd& x) -> VectorXd { return features * x; };
  return fit_family(name, form, seconds, starting_point(features, seconds), result);
}

void fit_messages(const FitRecords& records, ConstantList& constants, ProfileFit& result) {
  const auto messages = fit_line("messages", records.messages, result);
  if (messages) {
    const std::string how = fmt::format("least squares over {} records of messages", records.messages.size());
    constants.add_fitted("network.latency", *messages, 0, how);
    constants.add_rate("network.nvlink_rate", *messages, 1, how);
  }
  const auto all_to_alls = fit_line("all-to-alls", records.all_to_alls, result);
  if (!all_to_alls && !messages) return;
  const std::string how =
      all_to_alls ? fmt::format("least squares over {} records of all-to-alls", records.all_to_alls.size())
                  : fmt::format("no record of an all-to-all, taken as {} messages at once", records.messages.size());
  constants.add_fitted("exchange.notify", all_to_alls ? *all_to_alls : *messages, 0, how);
  constants.add_rate("exchange.nvlink_rate", all_to_alls ? *all_to_alls : *messages, 1, how);
}

struct CollectiveTerms {
  double steps = 0, bus_bytes = 0;
};

CollectiveTerms terms_of(const Measurement& m) {
  const model::Collective kind = model::parse_collective(m.op).value();
  const auto ranks = static_cast<std::int64_t>(extent_of(m, "ranks"));
  const double passes = kind == model::Collective::all_reduce ? 2 : 1;
  return {passes * static_cast<double>(ranks - 1), model::bus_factor(kind, ranks) * extent_of(m, "bytes")};
}

// Records of different numbers of steps separate launch from step time; with one number of steps the launch is 0.
void fit_collectives(const FitRecords& records, ConstantList& constants, ProfileFit& result) {
  if (records.collectives.empty()) return;
  const auto rows = static_cast<Index>(records.collectives.size());
  std::set<double> steps;
  for (const Measurement* m : records.collectives) steps.insert(terms_of(*m).steps);
  const bool launches = steps.size() > 1;
  Eigen::MatrixXd features = Eigen::MatrixXd::Ones(rows, launches ? 3 : 2);
  VectorXd seconds(rows);
  for (Index i = 0; i < rows; ++i) {
    const Measurement& m = *records.collectives[static_cast<std::size_t>(i)];
    features(i, 0) = terms_of(m).bus_bytes;
    features(i, 1) = terms_of(m).steps;
    seconds[i] = m.time.p50;
  }
  const Form form = [&](const VectorXd& x) -> VectorXd { return features * x; };
  const auto fit = fit_family("collectives", form, seconds, starting_point(features, seconds), result);
  if (!fit) return;
  const std::string how = fmt::format("least squares over {} records of collectives", records.collectives.size());
  if (launches) constants.add_fitted("collective.launch", *fit, 2, how);
  const std::string simple = "collective.ring.simple.nvlink_hop";
  RobustFit scaled = *fit;
  scaled.values[1] /= constants.value(simple);
  constants.add_fitted("collective.nvlink_latency_scale", scaled, 1, how + ", of a transfer of " + simple);
  if (fit->silent[0]) return;
  const double efficiency = 1 / fit->values[0] / constants.value("network.nvlink_rate");
  for (const char* algorithm : {"ring", "tree"})
    for (const char* protocol : {"ll", "ll128", "simple"})
      constants.add(fmt::format("collective.{}.{}.efficiency", algorithm, protocol), efficiency, fit->uncertainty[0],
                    model::Evidence::fitted, how + ", their rate over that of messages");
}

// Returns the record of the same operator run alone, on a host on as many cores; nullptr when there is none.
const FitRecord* alone(const FitRecord& overlapped, const std::vector<FitRecord>& records, MachineKind machine) {
  const auto same = [&](const FitRecord& other) {
    const bool as_many = machine == MachineKind::gpu || other.cores == overlapped.cores;
    return other.kind == overlapped.kind && as_many && other.format == overlapped.format &&
           other.measurement->phase == overlapped.measurement->phase &&
           other.measurement->shape == overlapped.measurement->shape && other.key == overlapped.key;
  };
  const auto found = std::ranges::find_if(records, same);
  return found == records.end() ? nullptr : &*found;
}

void add_slowdown(const std::string& name, std::vector<double> ratios, ConstantList& constants) {
  if (ratios.empty()) return;
  const double typical = model::upper_median(ratios);
  std::optional<double> spread;
  if (ratios.size() > 2) {
    for (double& ratio : ratios) ratio = std::abs(ratio - typical);
    spread = model::upper_median(ratios) / typical;
  }
  constants.add(name, std::max(1.0, typical), spread, model::Evidence::measured,
                fmt::format("middle of {} ratios during a transfer and alone", ratios.size()));
}

// Returns the constants that the records determine. Rates within a node matter in every group of several GPUs a node.
std::vector<std::string> determined(const std::vector<const Measurement*>& records) {
  const auto several = [](const Measurement* m) { return group_of(*m).nodes() > 1; };
  const auto within = [](const Measurement* m) { return group_of(*m).nodes() == 1; };
  std::vector<std::string> names = {"collective.launch"};
  if (std::ranges::any_of(records, within))
    names.insert(names.end(), {"collective.nvlink_latency_scale", "network.nvlink_rate"});
  if (std::ranges::any_of(records, several))
    names.insert(names.end(), {"collective.network_latency_scale", "network.nic_rate"});
  return names;
}

// The seconds of all records with other values, in SI, of some constants.
class CollectiveForm {
 public:
  CollectiveForm(const model::Profile& base, const std::vector<const Measurement*>& records)
      : base_(base), records_(records), names_(determined(records)) {}

  const std::vector<std::string>& names() const { return names_; }

  VectorXd start(const ConstantList& constants, const VectorXd& seconds) const {
    return vector_of(names_, [&](const std::string& name) {
      const double value = constants.value(name);
      return value > 0 ? value : seconds.minCoeff() / 2;
    });
  }

  VectorXd operator()(const VectorXd& x) const {
    std::vector<model::Parameter> parameters = base_.parameters();
    for (std::size_t i = 0; i < names_.size(); ++i) {
      model::Parameter& parameter = parameters[base_.find(names_[i]).value()];
      parameter.value = x[static_cast<Index>(i)] / model::si_unit(parameter.unit)->factor;
    }
    const auto cost = collectives_of({base_.name(), "", std::move(parameters)}).value();
    return vector_of(records_, [&](const Measurement* m) { return collective_seconds(cost, *m); });
  }

 private:
  const model::Profile& base_;
  const std::vector<const Measurement*>& records_;
  std::vector<std::string> names_;
};

}  // namespace

void fit_core_gemms(const FitRecords& records, ConstantList& constants, ProfileFit& result) {
  const RecordForm form = form_of_cores();
  if (!fit_form(records, form, constants, result)) return;
  constants.add("gemm.tile", 1, std::nullopt, model::Evidence::assumed, "elements, not tiles, take a core's time");
  constants.add("gemm.k_block", 1, std::nullopt, model::Evidence::assumed, "as gemm.tile");
  fill_up(form, constants);
}

void fit_tile_gemms(const FitRecords& records, ConstantList& constants, ProfileFit& result) {
  fit_form(records, form_of_tiles(constants.value("gemm.tile"), constants.value("gemm.k_block")), constants, result);
}

// Fits memory-bound operators: t = max(shortest, bytes / (bandwidth of the class * min(1, cores / saturation))), plus
// for the permutation of tokens its map; attention: t = FLOPs / (rate * cores); routers: one time.

void fit_memory(const FitRecords& records, ConstantList& constants, ProfileFit& result) {
  if (records.memory.empty()) return;
  const MemoryForm form(records.memory);
  const auto fit = fit_family("memory-bound", form, seconds_of(records.memory), form.start(), result);
  if (!fit) return;
  const std::string how = fmt::format("least squares over {} records of memory-bound operators", records.memory.size());
  const double saturation = form.saturation(fit->values);
  constants.add_fitted("kernel.shortest", *fit, 0, how);
  if (records.machine == MachineKind::host) add_saturation(form, *fit, how, constants);
  for (Index column = 1; column <= form.classes(); ++column) {
    RobustFit of_all = *fit;  // the profile has the rate of all cores together, the fit that of one
    if (form.saturates()) of_all.values[column] /= saturation;
    constants.add_rate(fmt::format("memory.{}.bandwidth", to_string(form.type(column))), of_all, column, how,
                       "memory.default.bandwidth");
  }
  if (form.maps()) constants.add_fitted("permute.map", *fit, form.map_column(), how);
  fit_default(records, saturation, constants, result);
  add_output_bandwidth(form, saturation, *fit, constants);
}

void fit_attention(const FitRecords& records, ConstantList& constants, ProfileFit& result) {
  bool any = false;
  for (const OperatorKind kind : {OperatorKind::attention, OperatorKind::attention_grad}) {
    std::vector<FitRecord> of_kind;
    std::ranges::copy_if(records.attention, std::back_inserter(of_kind),
                         [&](const FitRecord& record) { return record.kind == kind; });
    if (of_kind.empty()) continue;
    const VectorXd seconds = seconds_of(of_kind);
    VectorXd work(seconds.size());
    // Rates of a host are of one core, those of a GPU of as many SMs as in the base profile.
    const bool host = records.machine == MachineKind::host;
    const double reference = host ? 1 : constants.value("attention.reference_sms");
    for (std::size_t i = 0; i < of_kind.size(); ++i)
      work[static_cast<Index>(i)] = *of_kind[i].measurement->flops * reference / static_cast<double>(of_kind[i].cores);
    const auto fit = fit_family(
        std::string(to_string(kind)), [&](const VectorXd& x) -> VectorXd { return work * x[0]; }, seconds,
        starting_point(work, seconds), result);
    constants.add_rate(kind == OperatorKind::attention ? "attention.forward_rate" : "attention.backward_rate", *fit, 0,
                       fmt::format("causal FLOPs over time, {} records", of_kind.size()));
    any = host;
  }
  if (any)
    constants.add("attention.reference_sms", 1, std::nullopt, model::Evidence::assumed, "the rates are of one core");
}

void fit_single_times(const FitRecords& records, ConstantList& constants, ProfileFit& result) {
  std::vector<const Measurement*> forward, backward;
  for (const FitRecord& record : records.routers)
    (record.kind == OperatorKind::router ? forward : backward).push_back(record.measurement);
  fit_one_time("router.forward", forward, constants, result);
  fit_one_time("router.backward", backward, constants, result);
  fit_one_time("host.launch", records.launch_calls, constants, result);
  fit_one_time("host.graph_launch", records.graph_calls, constants, result);
  fit_one_time("host.synchronization", records.round_trips, constants, result);
  if (!records.holds_gaps) fit_one_time("kernel.launch_gap", records.launches, constants, result);
  if (records.holds_gaps)
    constants.add("kernel.launch_gap", 0, std::nullopt, model::Evidence::measured,
                  "the times of operators hold the gaps before them");
}

void fit_transfers(const FitRecords& records, ConstantList& constants, ProfileFit& result) {
  fit_messages(records, constants, result);
  if (records.machine == MachineKind::gpu)
    fit_gpu_collectives(records, constants, result);
  else
    fit_collectives(records, constants, result);
}

void fit_interference(const FitRecords& records, ConstantList& constants, ProfileFit& result) {
  std::vector<double> gemms, attention;
  std::size_t unpaired = 0;
  for (const FitRecord& overlapped : records.overlapped) {
    const bool gemm = is_gemm(overlapped.type);
    if (!gemm && overlapped.type != model::OperatorClass::attention) continue;
    if (overlapped.alone_seconds > 0) {
      const double share =
          static_cast<double>(overlapped.cores) / static_cast<double>(overlapped.measurement->sms.value_or(1));
      (gemm ? gemms : attention).push_back(overlapped.seconds / overlapped.alone_seconds * share);
      continue;
    }
    const FitRecord* free = alone(overlapped, gemm ? records.gemms : records.attention, records.machine);
    if (free == nullptr) {
      ++unpaired;
      continue;
    }
    // The effect of fewer SMs is not part of the slowdown.
    const double fewer = static_cast<double>(overlapped.cores) / static_cast<double>(free->cores);
    (gemm ? gemms : attention).push_back(overlapped.seconds / free->seconds * fewer);
  }
  add_slowdown("gemm.slowdown_beside_transfer", std::move(gemms), constants);
  add_slowdown("attention.slowdown_beside_transfer", std::move(attention), constants);
  if (unpaired > 0)
    result.notes.push_back(fmt::format("{} record{} taken during a transfer without one of the same operator alone",
                                       unpaired, unpaired == 1 ? "" : "s"));
}

// Fits collectives on GPUs with the cost function of all predictions (model/cost/collective_cost.h): the launch, and
// the latency scale and rate of the links inside a node and between nodes, as far as the records reach.

model::CollectiveGroup group_of(const Measurement& m) {
  const auto ranks = static_cast<std::int64_t>(extent_of(m, "ranks"));
  const auto nodes = std::max<std::int64_t>(1, static_cast<std::int64_t>(extent_of(m, "nodes")));
  return {ranks, model::ceil_div(ranks, nodes)};
}

model::Result<model::CollectiveCost> collectives_of(const model::Profile& profile) {
  model::ClusterShape cluster;
  cluster.gpus_per_node = cluster.nics_per_node = 1;
  model::ConstantReader constants(profile);
  cluster.intra_node_bandwidth = model::BytesPerSecond(constants.value("network.nvlink_line_rate"));
  cluster.nic_bandwidth = model::BytesPerSecond(constants.value("network.nic_line_rate"));
  return model::CollectiveCost::make(profile, cluster);
}

double collective_seconds(const model::CollectiveCost& cost, const Measurement& m) {
  return cost.time(model::parse_collective(m.op).value(), group_of(m), model::Bytes(extent_of(m, "bytes")));
}

void fit_gpu_collectives(const FitRecords& records, ConstantList& constants, ProfileFit& result) {
  if (records.collectives.empty()) return;
  if (const auto valid = collectives_of(constants.base()); !valid) {
    result.notes.push_back(fmt::format("collectives are not fitted: {}", model::to_string(valid.error())));
    return;
  }
  const CollectiveForm form(constants.base(), records.collectives);
  const VectorXd seconds = vector_of(records.collectives, [](const Measurement* m) { return m->time.p50; });
  const auto fit = fit_family("collectives", form, seconds, form.start(constants, seconds), result);
  if (!fit) return;
  const std::string how = fmt::format("least squares over {} records of collectives", seconds.size());
  for (std::size_t i = 0; i < form.names().size(); ++i)
    constants.add_fitted(form.names()[i], *fit, static_cast<Index>(i), how);
}

}  // namespace plumbline::calibrate
