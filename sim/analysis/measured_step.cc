#include "sim/analysis/measured_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <system_error>
#include <utility>

#include "model/architecture/metrics.h"
#include "model/base/text.h"
#include "model/memory/memory.h"
#include "model/plan/alternative.h"
#include "model/plan/layout.h"
#include "model/program/compile.h"
#include "sim/predict/predictor.h"

namespace plumbline::sim {

namespace {

using model::MeasuredCause;
using model::Quantiles;

constexpr std::size_t most_causes = 3;
constexpr double least_effect = 0.005;  // of the step: smaller causes explain nothing, smaller errors need none
// nvidia-smi counts memory that no program gets, so that its figure may exceed the usable capacity.
constexpr double counted_memory = 1.05;

double distance(double time_s, double expected_s) { return std::abs(std::log(time_s / expected_s)); }

// FLOPs that recomputation adds to those of the model, over these.
double recomputed_share(const Inputs& inputs, const model::Layout& layout, bool causal, double model_flops) {
  const model::RecomputePolicy policy = model::recompute_policy(inputs.plan);
  if (policy.empty()) return 0;
  std::map<model::BlockKind, double> counts;
  for (std::int64_t stage = 0; stage < layout.stages; ++stage)
    for (const model::StageBlock& block : model::stage_blocks(inputs.plan, inputs.architecture, layout, stage))
      if (block.pass == model::BlockPass::recomputed && block.kind != model::BlockKind::multi_token_prediction)
        ++counts[block.kind];
  double flops = 0;
  for (const auto& [kind, count] : counts)
    flops += count * model::recomputed_flops_per_token(inputs.architecture, inputs.plan.batch.sequence_length, kind,
                                                       policy, causal);
  return flops / model_flops;
}

model::Result<RateCounts> rate_counts(const Inputs& inputs) {
  const model::Plan& plan = inputs.plan;
  const model::Layout layout = TRY(model::make_layout(plan, inputs.architecture));
  const model::ModelMetrics metrics =
      model::model_metrics(inputs.architecture, plan.batch.sequence_length, model::adapters_of(plan));
  RateCounts counts;
  counts.recomputed = recomputed_share(inputs, layout, false, metrics.flops_per_token);
  counts.recomputed_causal = recomputed_share(inputs, layout, true, metrics.flops_per_token_causal);
  const model::Device& device = inputs.cluster.device;
  for (const model::Precision precision :
       std::set{plan.precision.gemm, plan.precision.experts.value_or(plan.precision.gemm)}) {
    const double peak = model::peak(device, precision);
    if (!model::is_quantized(precision) || peak <= 0) continue;
    const char* name = model::bytes_per_element(model::activation_type(precision)) < 1 ? "FP4" : "FP8";
    if (std::ranges::find(counts.peaks, name, &RateCounts::Peak::name) == counts.peaks.end())
      counts.peaks.push_back({name, peak / device.bf16_peak.value()});
  }
  return counts;
}

// Returns the step of a value without conventions.
double stated_step(const Inputs& inputs, const model::StepTimes& step, const MeasuredValue& value) {
  if (value.quantity == MeasuredQuantity::seconds) return value.value;
  if (value.quantity == MeasuredQuantity::samples_per_s)
    return static_cast<double>(inputs.plan.batch.global_batch_size) / value.value;
  const bool per_gpu = value.quantity == MeasuredQuantity::tokens_per_s_per_gpu;
  return step.time_s * (per_gpu ? step.tokens_per_s_per_gpu : step.tokens_per_s) / value.value;
}

// What moves a prediction from its middle towards a measured step.
class Causes {
 public:
  Causes(const Quantiles& predicted, double measured_s)
      : predicted_(predicted), measured_s_(measured_s), slower_(measured_s > predicted.p50) {}

  // A part has its share of the variance of ln(time), and so the root of it of the way to the end of the interval.
  void add_part(const model::IntervalPart& part) {
    const double end = slower_ ? predicted_.p90 : predicted_.p10;
    add(part.source, std::pow(end / predicted_.p50, std::sqrt(part.share)), part.measurement);
  }

  // Returns whether it moves the prediction that way at all.
  bool add(std::string name, double ratio, std::string remedy) {
    if ((slower_ ? ratio - 1 : 1 - ratio) < least_effect) return false;
    const double time_s = predicted_.p50 * ratio;
    const bool reaches = slower_ ? time_s >= measured_s_ : time_s <= measured_s_;
    causes_.push_back({std::move(name), time_s, reaches, std::move(remedy)});
    return true;
  }

  // Returns those that reach the measured step, or where none does, those that come closest.
  std::vector<MeasuredCause> largest() && {
    const double middle = predicted_.p50;
    std::ranges::stable_sort(causes_, std::ranges::greater{},
                             [&](const MeasuredCause& cause) { return distance(cause.time_s, middle); });
    if (std::ranges::any_of(causes_, &MeasuredCause::reaches))
      std::erase_if(causes_, [](const MeasuredCause& cause) { return !cause.reaches; });
    causes_.resize(std::min(causes_.size(), most_causes));
    return std::move(causes_);
  }

 private:
  Quantiles predicted_;
  double measured_s_;
  bool slower_;
  std::vector<MeasuredCause> causes_;
};

// Adds the closed forms of plans with one key otherwise, of each key the likeliest value that moves the step that way.
// A plan that cannot be explains nothing.
model::Result<void> add_otherwise(const Inputs& inputs, Causes& causes) {
  Predictor predictor(inputs);
  const PlanEstimate stated = TRY(predictor.closed_form(inputs.plan));
  std::string_view explained;
  for (const model::UsualChange& change : model::usual_changes(inputs.plan)) {
    if (change.key == explained) continue;
    const auto changed = predictor.closed_form(change.plan);
    if (changed && causes.add(fmt::format("{} {}", change.name, change.value),
                              changed->step.time_s / stated.step.time_s, fmt::format("--set {}", change.setting)))
      explained = change.key;
  }
  return {};
}

// Returns what is on the fullest device as predicted, but not counted.
double uncounted_bytes(const model::Memory& memory, model::MemoryCount counted) {
  const model::RankMemory* rank = model::fullest_rank(memory);
  if (rank == nullptr || counted == model::MemoryCount::device) return 0;
  const double bytes = counted == model::MemoryCount::reserved ? rank->segments_bytes : rank->allocated_bytes;
  return bytes > 0 ? std::max(0.0, rank->peak_bytes - bytes) : 0;
}

model::Result<model::MeasuredMemory> measured_memory(const model::StepResult& result, const Measurement& measurement) {
  const double capacity = result.memory.capacity_bytes;
  const double added =
      std::min(uncounted_bytes(result.memory, measurement.counted), std::max(0.0, capacity - *measurement.peak_bytes));
  const double peak_bytes = *measurement.peak_bytes + added;
  constexpr double gigabyte = 1e9;
  if (peak_bytes > capacity * counted_memory)
    return model::wrong_input("--measured-memory",
                              fmt::format("{:.1f} GB are more than the {:.1f} GB of {}", peak_bytes / gigabyte,
                                          capacity / gigabyte, result.device),
                              "give the peak of one GPU, the fullest, as nvidia-smi states it");
  return model::MeasuredMemory{peak_bytes, result.interval->peak_bytes.at_most(capacity).share_below(peak_bytes),
                               measurement.counted, added};
}

}  // namespace

std::vector<model::RateConvention> rate_conventions(const model::StepTimes& step, const MeasuredValue& rate,
                                                    const RateCounts& counts, double expected_s) {
  const bool mfu = rate.quantity == MeasuredQuantity::mfu;
  std::vector<RateCounts::Peak> peaks = {{"BF16", 1}};
  if (mfu) peaks.insert(peaks.end(), counts.peaks.begin(), counts.peaks.end());
  std::vector<model::RateConvention> conventions;
  const auto add = [&](std::string_view name, double counted) {
    for (const RateCounts::Peak& peak : peaks) {
      const double predicted = mfu ? counted * step.mfu / step.model_tflops_per_gpu / peak.over_bf16 : counted;
      conventions.push_back({mfu ? fmt::format("{}, {} peak", name, peak.name) : std::string(name),
                             step.time_s * predicted / rate.value});
    }
  };
  const double full = step.model_tflops_per_gpu, causal = step.model_tflops_per_gpu_causal;
  add("model FLOPs, full attention", full);
  if (causal != full) add("model FLOPs, causal attention", causal);
  if (counts.recomputed > 0) {
    add("with recomputation, full attention", full * (1 + counts.recomputed));
    if (causal != full) add("with recomputation, causal attention", causal * (1 + counts.recomputed_causal));
  }
  std::ranges::stable_sort(conventions, std::ranges::less{},
                           [&](const model::RateConvention& one) { return distance(one.time_s, expected_s); });
  return conventions;
}

model::MeasuredVerdict measured_verdict(double time_s, const Quantiles& predicted, std::optional<double> bound_s) {
  using enum model::MeasuredVerdict;
  if (bound_s && time_s < *bound_s) return impossible;
  if (predicted.contains(time_s)) return as_predicted;
  return time_s > predicted.p90 ? slower : faster;
}

model::Result<model::MeasuredStep> measured_step(const Inputs& inputs, const model::StepResult& result,
                                                 const Measurement& measurement) {
  if (!result.interval)
    return model::wrong_input("--measured", "the prediction has no interval to hold it against",
                              "leave out --no-interval");
  const Quantiles& predicted = result.interval->time_s;
  const MeasuredValue& value = measurement.step;
  model::MeasuredStep measured;
  measured.given = value.given;
  if (value.quantity == MeasuredQuantity::tflops || value.quantity == MeasuredQuantity::mfu) {
    measured.conventions = rate_conventions(result.step, value, TRY(rate_counts(inputs)), predicted.p50);
    measured.time_s = measured.conventions.front().time_s;
  } else {
    measured.time_s = stated_step(inputs, result.step, value);
  }
  measured.share_below = predicted.share_below(measured.time_s);
  measured.verdict = measured_verdict(measured.time_s, predicted, result.bound_s);
  const bool explained = distance(measured.time_s, predicted.p50) >= least_effect;
  if (explained && measured.verdict != model::MeasuredVerdict::impossible) {
    Causes causes(predicted, measured.time_s);
    for (const model::IntervalPart& part : result.interval->parts) causes.add_part(part);
    TRY(add_otherwise(inputs, causes));
    measured.causes = std::move(causes).largest();
  }
  if (measurement.peak_bytes) measured.memory = TRY(measured_memory(result, measurement));
  measured.log = measurement.log;
  if (measured.log && measured.log->tflops)
    measured.log->count = rate_conventions(result.step, {"", MeasuredQuantity::tflops, *measured.log->tflops},
                                           TRY(rate_counts(inputs)), measured.time_s)
                              .front();
  return measured;
}

model::Result<MeasuredDeployment> measured_deployment(const model::ServingResult& result, const MeasuredValue& value) {
  using enum MeasuredQuantity;
  if (!result.interval || !result.interval->tpot_s || !result.interval->output_tokens_per_s_per_gpu)
    return model::wrong_input("--measured", "the prediction has no interval to hold it against",
                              "leave out --no-interval");
  const Quantiles& tpot = *result.interval->tpot_s;
  const Quantiles& rate = *result.interval->output_tokens_per_s_per_gpu;
  MeasuredDeployment found{{}, tpot};
  found.measured.given = value.given;
  found.measured.time_s = value.value;
  if (value.quantity != seconds) {
    const double gpus = result.output_tokens_per_s / result.output_tokens_per_s_per_gpu;
    const double own = value.quantity == tokens_per_s ? value.value / gpus : value.value;
    const auto meant = [&](double of_gpu) { return tpot.p50 * rate.p50 / of_gpu; };
    found.measured.time_s = meant(own);
    found.predicted = {meant(rate.p90), tpot.p50, meant(rate.p10)};
  }
  model::MeasuredStep& measured = found.measured;
  measured.share_below = found.predicted.share_below(measured.time_s);
  measured.verdict = measured_verdict(measured.time_s, found.predicted, std::nullopt);
  if (distance(measured.time_s, tpot.p50) < least_effect) return found;
  Causes causes(found.predicted, measured.time_s);
  for (const model::IntervalPart& part : result.interval->parts) causes.add_part(part);
  for (const model::AssumedKey& key : result.assumed)
    causes.add(fmt::format("{} {}", key.name, key.other), key.ratio, fmt::format("--set {}", key.setting));
  measured.causes = std::move(causes).largest();
  return found;
}

namespace {

struct MeasuredUnit {
  std::string_view name;
  double factor;
  MeasuredQuantity quantity = {};  // of a step
};

// Returns a number in one of an option's units, and the unit. `form` is what the option takes, for errors.
model::Result<std::pair<double, MeasuredUnit>> read_measured(std::string_view text, std::span<const MeasuredUnit> units,
                                                             const char* option, const char* form) {
  double number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc()) return model::wrong_input(option, fmt::format("'{}' begins with no number", text), form);
  const std::string_view name = model::trimmed(text.substr(static_cast<std::size_t>(end - text.data())));
  if (name.empty()) return model::wrong_input(option, fmt::format("'{}' has no unit", text), form);
  const auto unit = std::ranges::find(units, name, &MeasuredUnit::name);
  if (unit == units.end()) {
    std::vector<std::string> names;
    for (const MeasuredUnit& known : units) names.emplace_back(known.name);
    return model::wrong_input(option, fmt::format("'{}' has the unknown unit '{}'", text, name),
                              model::known_names(name, names));
  }
  const double value = number * unit->factor;
  if (!std::isfinite(value) || value <= 0)
    return model::wrong_input(option, fmt::format("'{}' is not a finite number above 0", text), form);
  return std::pair(value, *unit);
}

}  // namespace

model::Result<double> parse_measured_peak(std::string_view memory) {
  static constexpr double binary_kilo = 1024;
  static constexpr MeasuredUnit memory_units[] = {
      {"MB", 1e6},
      {"GB", 1e9},
      {"MiB", binary_kilo * binary_kilo},
      {"GiB", binary_kilo * binary_kilo * binary_kilo},
  };
  return read_measured(memory, memory_units, "--measured-memory", "the peak of the fullest GPU, as 71GB or 68000MiB")
      .map([](const auto& read) { return read.first; });
}

model::Result<Measurement> parse_measurement(std::string_view step, std::optional<std::string_view> memory) {
  using enum MeasuredQuantity;
  static constexpr MeasuredUnit step_units[] = {
      {"s", 1, seconds},
      {"ms", 1e-3, seconds},
      {"min", 60, seconds},
      {"s/it", 1, seconds},
      {"tok/s", 1, tokens_per_s},
      {"ktok/s", 1e3, tokens_per_s},
      {"Mtok/s", 1e6, tokens_per_s},
      {"tokens/s", 1, tokens_per_s},
      {"tok/s/GPU", 1, tokens_per_s_per_gpu},
      {"ktok/s/GPU", 1e3, tokens_per_s_per_gpu},
      {"tokens/s/GPU", 1, tokens_per_s_per_gpu},
      {"samples/s", 1, samples_per_s},
      {"TFLOP/s", 1, tflops},
      {"TFLOP/s/GPU", 1, tflops},
      {"TFLOPS", 1, tflops},
      {"%", 1e-2, mfu},
  };
  constexpr const char* option = "--measured";
  const auto [value, unit] = TRY(read_measured(
      step, step_units, option,
      "a step as 2.1s, a time per output token as 35ms, 1.2Mtok/s, 7800tok/s/GPU, 230TFLOP/s of a GPU, or an MFU as "
      "41%"));
  if (unit.quantity == mfu && value > 1)
    return model::wrong_input(option, fmt::format("an MFU of '{}' is above the peak", step),
                              "at most 100%, or TFLOP/s of a GPU: 230TFLOP/s");
  Measurement measurement{{std::string(step), unit.quantity, value}, std::nullopt};
  if (memory) measurement.peak_bytes = TRY(parse_measured_peak(*memory));
  return measurement;
}

model::Result<MeasuredValue> parse_measured_deployment(std::string_view figure) {
  using enum MeasuredQuantity;
  MeasuredValue value = TRY(parse_measurement(figure)).step;
  if (value.quantity != seconds && value.quantity != tokens_per_s && value.quantity != tokens_per_s_per_gpu)
    return model::wrong_input("--measured", fmt::format("'{}' is no figure of a deployment", figure),
                              "a time per output token as 35ms, or output tokens as 9000tok/s or 560tok/s/GPU");
  return value;
}

}  // namespace plumbline::sim
