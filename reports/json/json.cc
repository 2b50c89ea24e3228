#include "reports/json/json.h"

#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "model/base/version.h"
#include "model/result/middle.h"
#include "reports/json/detail/measured_parts.h"
#include "reports/json/detail/schemas.h"
#include "reports/json/detail/shared_fields.h"
#include "reports/quantities.h"
#include "reports/text/step/sections.h"

namespace plumbline::reports {
namespace {

using Json = nlohmann::ordered_json;

Stated<Json> plan_of(const model::Plan& plan) { return {Json::parse(plan_json(plan)), reference<Json>("plan")}; }

// The step, its rates and the training in the middle of the interval.
struct Middle {
  model::StepTimes step;
  std::optional<model::RunCost> run;
  double peak_bytes = 0;
};

}  // namespace

void fields(auto& to, const model::PerOp& of) {
  constexpr std::array<const char*, 5> meanings = {"forward", "full backward", "backward for the input",
                                                   "backward for the weights",
                                                   "overlapped pair of forward and backward"};
  for (std::size_t i = 0; i < of.size(); ++i) to(model::to_string(static_cast<model::OpType>(i)), meanings[i], of[i]);
}
template <>
inline constexpr std::string_view definition_name<model::PerOp> = "per_op";

void fields(auto& to, const std::array<std::int64_t, 5>& of) {
  constexpr std::array<const char*, 5> meanings = {
      "forward passes of the pipeline rank", "full backward passes of the pipeline rank",
      "backward passes of inputs alone", "backward passes of weights alone",
      "pairs of a forward and a full backward pass"};
  for (std::size_t i = 0; i < of.size(); ++i) to(model::to_string(static_cast<model::OpType>(i)), meanings[i], of[i]);
}

// Seconds of a step by class of work.
auto breakdown_of(const model::StepTimes& step) {
  static const std::map<std::string, const char*, std::less<>> meanings = {
      {"GEMM", "seconds of GEMMs"},
      {"attention", "seconds of attention"},
      {"other_memory-bound", "seconds of other kernels that memory limits"},
      {"casts_and_transposes", "seconds of casts between formats and of transposes"},
      {"optimizer", "seconds of the optimizer"},
      {"router", "seconds of the routing of tokens to experts"},
      {"host", "seconds in which the GPU waits for the host"},
      {"exposed_communication", "seconds of communication during which nothing is computed"},
      {"point-to-point", "seconds of messages between pipeline ranks"},
      {"bubble", "seconds in which the rank waits for others in the pipeline"},
      {"exposed_input", "seconds in which the step waits for its input"},
      {"exposed_copy_to_the_host", "seconds in which the step waits for copies to the host"}};
  return Object([&step](auto& to) {
    visit_breakdown(step, [&to](const std::string& key, std::optional<double> seconds) {
      const auto meaning = meanings.find(key);
      to(key, meaning == meanings.end() ? "" : meaning->second, seconds);
    });
  });
}

void fields(auto& to, const model::StepTimes& of) {
  visit_step(of,
             [&to](const char* key, const auto& value, const char*, const char* meaning) { to(key, meaning, value); });
  to("breakdown_s",
     "seconds of rank 0 by class of work; they add up to time_s. 0: nothing of the class ran; null: not separated (all "
     "classes in closed form, messages of an executed step, which are part of its bubble)",
     breakdown_of(of));
}
template <>
inline constexpr std::string_view definition_name<model::StepTimes> = "step";

void fields(auto& to, const model::ClusterSpread& of) {
  visit_cluster(
      of, [&to](const char* key, const auto& value, const char*, const char* meaning) { to(key, meaning, value); });
  to("bubble", "idle time by cause", List(of.bubble, [](auto& part_to, const model::BubblePart& part) {
       part_to("cause", "what causes it", part.cause);
       part_to("seconds", "seconds of idle time", part.seconds);
       part_to("step_s", "seconds of the step that it accounts for", part.step_s);
     }));
}
template <>
inline constexpr std::string_view definition_name<model::ClusterSpread> = "cluster";

void fields(auto& to, const model::IntervalPart& of) {
  to("source", "what is uncertain", of.source);
  to("share", "its share of the variance of the logarithm of the time", of.share);
  to("measurement", "what would make it certain", unless_empty(of.measurement));
  to("half_width_after", "half width of the interval after that measurement, relative", of.half_width_after);
}

// A prediction's interval, with all of its keys where there is none.
auto uncertainty(const std::optional<model::PredictionInterval>& known) {
  return Defined("interval", [&](auto& to) {
    const model::PredictionInterval interval = known.value_or(model::PredictionInterval());
    visit_quantiles(
        interval, [&](const char* key, const std::optional<model::Quantiles>& found, const char*, const char* meaning) {
          to(key, meaning, QuantilesOrNulls{known ? found : std::nullopt});
        });
    to("fits_probability", "how probable it is that the plan fits in memory",
       where(known.has_value(), interval.fits_probability));
    to("left_factor", "factor on the time by what is left between predictions and measured steps",
       where(known.has_value(), interval.left_factor));
    to("left_rows", "the measured steps behind that factor", unless_empty(interval.left_rows));
    to("draws", "predictions behind the quantiles", interval.draws);
    to("parts", "the parts it is made of", interval.parts);
  });
}

// The contract of simulate has the components under `step` and `run`.
void fields(auto& to, const Middle& of) {
  const auto of_run = [&of](double model::RunCost::*quantity) {
    return of.run ? std::optional(*of.run.*quantity) : std::nullopt;
  };
  to("time_s", "seconds of the step", of.step.time_s);
  to("tokens_per_s", "tokens/s", of.step.tokens_per_s);
  to("tokens_per_s_per_gpu", "tokens/s of a GPU", of.step.tokens_per_s_per_gpu);
  to("model_tflops_per_gpu", "TFLOP/s of a GPU", of.step.model_tflops_per_gpu);
  to("mfu", "model FLOPs utilisation: share of the dense BF16 peak", of.step.mfu);
  to("days", "days of the whole training", of_run(&model::RunCost::days));
  to("gpu_hours", "GPU-hours of the whole training", of_run(&model::RunCost::gpu_hours));
  to("cost_usd", "USD of the whole training", of.run ? of.run->cost_usd : std::nullopt);
  to("peak_bytes", "bytes on the fullest rank", of.peak_bytes);
}
template <>
inline constexpr std::string_view definition_name<std::optional<Middle>> = "middle";

auto price_of(const model::Known<model::HourlyPrice>& found) {
  return Defined("price", [&](auto& to) {
    const bool known = found.value.has_value();
    const model::HourlyPrice price = found.value.value_or(model::HourlyPrice());
    to("usd_per_gpu_hour", "USD of a GPU-hour; null: unknown", where(known, price.value));
    to.only_where(known, "low", "lower end", price.low);
    to.only_where(known, "high", "upper end", price.high);
    to.only_where(known, "kind", "", Stated<Json>{price.kind, reference<Json>("price_kind")});
    to.only_where(known, "source", "where it is from", price.source);
    to.only_where(known, "capital_usd_per_gpu_hour", "USD of the hardware", price.capital);
    to.only_where(known, "electricity_usd_per_gpu_hour", "USD of electricity", price.electricity);
    to.only_where(!known, "missing", "why no price is known", found.missing);
  });
}

void fields(auto& to, const model::RunCost& of) {
  const auto& price = of.price().value;
  const double hours = of.gpu_hours, all_hours = of.total_gpu_hours;
  visit_run(
      of, [&to](const char* key, const auto& value, const char*, const char* meaning) { to(key, meaning, value); },
      [&] {
        to("phases", "phases one by one", List(of.phases, [](auto& phase_to, const model::RunPhaseCost& phase) {
             phase_to("name", "name of the phase", phase.name);
             phase_to("gpu_hours", "hours of one GPU", phase.gpu_hours);
             phase_to("kind", "what kind of thing it is", phase.kind);
             phase_to("source", "where it is from", phase.source);
           }));
      });
  to("goodput_source", "where the goodput is from", of.goodput_source);
  to("ownership", "whether the GPUs are rented or bought", of.ownership);
  to("price_usd_per_gpu_hour", "price of a GPU-hour",
     where(price.has_value(), price.value_or(model::HourlyPrice()).value));
  to("cost_usd_low", "lower end of the cost", of.cost_low_usd(hours));
  to("cost_usd_high", "upper end of the cost", of.cost_high_usd(hours));
  to("total_cost_usd_low", "lower end of that cost", of.cost_low_usd(all_hours));
  to("total_cost_usd_high", "upper end of that cost", of.cost_high_usd(all_hours));
  to("rent", "", price_of(of.rent));
  to("purchase", "", price_of(of.purchase));
  to("energy_mwh", "MWh", of.energy_mwh(hours));
  to("total_energy_mwh", "MWh with the phases that are stated", of.energy_mwh(all_hours));
  to("energy_source", "where the power is from", energy_source(of));
  to("fabric", "parts of the network", Object([&of](auto& part_to) {
       part_to("nics", "number of NICs", of.fabric.nics);
       part_to("switches", "number of switches", of.fabric.switches);
       part_to("links", "links of the fabric", of.fabric.links);
       part_to("usd", "price of the fabric", of.fabric_usd);
     }));
}
template <>
inline constexpr std::string_view definition_name<model::RunCost> = "run";

void fields(auto& to, const model::LostTime& of) {
  to("cause", "what causes it", of.cause);
  to("seconds", "seconds by which it makes the step longer", of.seconds);
  to("remedy", "what would change it", of.remedy);
}

auto bound_of(const model::StepResult& result) {
  return Defined("bound", [&](auto& to) {
    const bool known = result.bound_s.has_value();
    const auto lost = where(known, result.lost);
    to("time_s", "seconds that no schedule, overlap or kernel at the profile's best rates can beat", result.bound_s);
    to("binds", "the resource that sets the bound", where(known, result.bound_by));
    to("rank", "the pipeline rank that it holds for", where(known, result.bound_rank));
    to("lost", "what the step takes above the bound, the largest first", lost);
    to("flops_at_peak_s", "seconds of the model's FLOPs at the peak of their format", result.flops_at_peak_s);
  });
}

void fields(auto& to, const model::Memory& of) {
  static const std::vector<std::string_view> verdicts = {"fits", "at the edge", "does not fit"};
  const model::RankMemory* fullest = model::fullest_rank(of);
  const bool predicted = !of.ranks.empty() && !of.measured;
  to("peak_bytes", "bytes on the fullest rank", of.peak_bytes);
  to("capacity_bytes", "bytes of a GPU", of.capacity_bytes);
  to("fits", "whether every rank's peak fits", of.fits);
  to("stages", "pipeline stages one by one", List(of.ranks, [&of](auto& rank_to, const model::RankMemory& rank) {
       rank_to("stage", "pipeline rank", rank.rank);
       rank_to("stages", "the stages on it", rank.stages);
       rank_to("parameters_bytes", "bytes of parameters", rank.parameters_bytes);
       rank_to("gradients_bytes", "bytes of gradients", rank.gradients_bytes);
       rank_to("optimizer_bytes", "bytes of optimizer states", rank.optimizer_bytes);
       rank_to("activations_bytes", "bytes of kept activations", rank.activations_bytes);
       rank_to("buffers_bytes", "temporary buffers, buffers of communication and reserves", rank.buffers_bytes());
       rank_to("peak_bytes", "bytes at the highest moment", rank.peak_bytes);
       rank_to("temporary_bytes", "bytes of temporaries", rank.temporary_bytes);
       rank_to("communication_bytes", "bytes of communication buffers", rank.communication_bytes);
       rank_to("reserve_bytes", "CUDA context, libraries, allocator", rank.reserve_bytes);
       rank_to("free_bytes", "capacity less the peak", of.capacity_bytes - rank.peak_bytes);
       rank_to("activations_peak_bytes", "the most that activations take at any moment", rank.activations_peak_bytes);
       rank_to("low_bytes", "the least peak of what is uncertain", rank.low_bytes);
       rank_to("high_bytes", "the largest", rank.high_bytes);
       rank_to("allocated_bytes", "what tensors take", rank.allocated_bytes);
       rank_to("segments_bytes", "what the allocator holds for them", rank.segments_bytes);
       rank_to("largest", "what is largest", rank.largest);
       rank_to("peak_operator", "the operator of the highest moment", rank.peak_operator);
       rank_to("host_bytes", "bytes in host memory", rank.host_bytes);
     }));
  to("fullest_rank", "pipeline rank", fullest != nullptr ? std::optional(fullest->rank) : std::nullopt);
  to("measured", "whether an executed step had these peaks", of.measured);
  to("fits_probability", "how probable it is that it fits as clusters run it; null: not drawn", of.fits_probability);
  to("verdict", "fits: with 95 % or more; does not fit: with less than 5 %; null: measured",
     Word{where(predicted, model::to_string(model::fit_of(of))), verdicts, true});
  to("host_bytes", "bytes in the memory of the fullest host; null: measured", where(predicted, of.host_bytes));
  to("host_capacity_bytes", "bytes of memory of a host; null: not known",
     where(of.host_capacity_bytes > 0, of.host_capacity_bytes));
}
template <>
inline constexpr std::string_view definition_name<model::Memory> = "memory";

auto basis_of(const model::StepResult& result) {
  return Defined("basis", [&](auto& to) {
    to("fidelity", "how the step was predicted: closed-form, step or kernel", result.fidelity);
    to("profile", "profile with the constants", result.profile);
    to("stack", "software stack", unless_empty(result.stack));
    to("device", "name of the GPU", result.device);
    to("warnings", "what to doubt", result.warnings);
  });
}

void fields(auto& to, const model::AssumedKey& of) {
  to("key", "key of a plan", of.key);
  to("name", "what the key is, in words", of.name);
  to("value", "what is predicted with, in words; null: not set", unless_empty(of.value));
  to("given_by", "the software stack; null: the default", unless_empty(of.given_by));
  to("other", "another usual value, in words", of.other);
  to("set", "KEY=VALUE of the other, for --set", of.setting);
  to("time_ratio", "with the other over as predicted: of the step, or of a deployment's time per output token",
     of.ratio);
}
template <>
inline constexpr std::string_view definition_name<std::vector<model::AssumedKey>> = "assumed";

void fields(auto& to, const model::MemoryChange& of) {
  to("set", "changes, as --set takes them", of.settings);
  to("peak_bytes", "bytes of the fullest rank", of.peak_bytes);
  to("peak_operator", "operator at which the peak is reached", of.peak_operator);
  to("step_ratio", "time of the step over that of the plan, where it fits", of.step_ratio);
  to("allocated_bytes", "tensors of the rank that needs most at least", of.allocated_bytes);
  to("unused_low_bytes", "the least that its allocator holds in addition", of.unused_low_bytes);
  to("unused_high_bytes", "the most, on a device without limit", of.unused_high_bytes);
  to("fits_probability", "how probable it is that it fits", of.fits_probability);
  to("margin_bytes", "capacity less what it needs at least", of.margin_bytes);
}

void fields(auto& to, const model::RateConvention& of) {
  to("convention", "what is counted, and of an MFU the peak", of.name);
  to("step_s", "seconds of the step that the rate means then", of.time_s);
}

void fields(auto& to, const model::MemoryLevel& of) {
  to("op", "number of the slot in the order of its rank", of.op);
  to("what", "what the slot computes", of.what);
  to("activations_bytes", "bytes of kept activations", of.activations_bytes);
  to("temporary_bytes", "bytes of temporaries", of.temporary_bytes);
  to("communication_bytes", "bytes of communication buffers", of.communication_bytes);
  to("total_bytes", "sum of all", of.total_bytes);
}

namespace {

// Of a step that was measured there is no verdict.
std::optional<FitInMemory> fit_of_memory(const model::Memory& memory) {
  const model::RankMemory* fullest = model::fullest_rank(memory);
  if (fullest == nullptr || memory.measured) return std::nullopt;
  return FitInMemory{model::fit_of(memory), memory.fits_probability, memory.capacity_bytes - fullest->least_bytes()};
}

std::optional<Middle> middle_of(const model::StepResult& result) {
  if (!result.interval) return std::nullopt;
  const bool known = result.run.has_value();
  return Middle{model::middle_step(result), known ? model::middle_run(result) : std::nullopt,
                result.interval->peak_bytes.p50};
}

std::vector<ConstantOfStep> provenance_of(const std::vector<model::ProvenanceEntry>& entries) {
  std::vector<ConstantOfStep> constants;
  for (const model::ProvenanceEntry& entry : entries) constants.push_back({entry.parameter, entry.share_of_step});
  return constants;
}

void log_fields(auto& to, const model::MeasuredStep& measured, const model::MeasuredLog& log) {
  to("format", "the program that printed it", log.format);
  to("steps", "lines of steps whose median is taken", log.steps);
  to("warm_up", "lines before them that are left out", log.warm_up);
  to("pauses", "lines among them that are left out", log.pauses);
  to("damaged", "lines that are cut or have another inside", log.damaged);
  to("p10_s", "seconds that a tenth of the steps take less than", measured.time_s * log.low);
  to("p90_s", "seconds that a tenth of the steps take more than", measured.time_s * log.high);
  to("tflops_per_gpu", "as the log states them", log.tflops);
  to("convention", "what these count, by what comes closest to the step",
     log.count ? std::optional(log.count->name) : std::nullopt);
  to("convention_step_s", "seconds of the step that they mean then",
     log.count ? std::optional(log.count->time_s) : std::nullopt);
}

void memory_fields(auto& to, const model::MeasuredMemory& memory) {
  static const std::vector<std::string_view> counts = {"device", "reserved", "allocated"};
  to("peak_bytes", "bytes of the device: measured, with those added", memory.peak_bytes);
  to("percentile", "of 100 such runs, how many take less", memory.share_below * hundred);
  to("sentence", "where it lies, in words", memory_verdict(memory));
  to("counted", "by the measurement: the device, what the allocator reserved, or tensors",
     Word{counts[static_cast<std::size_t>(memory.counted)], counts});
  to("added_bytes", "what was not counted, as predicted", memory.added_bytes);
}

void measured_fields(auto& to, const model::MeasuredStep& measured, double bound_s) {
  const auto& conventions = measured.conventions;
  to("given", "the measured value, as it was given, or the path of a log", measured.given);
  to("step_s", "seconds of the step that it means", measured.time_s);
  to("percentile", "of 100 such runs, how many are faster", measured.share_below * hundred);
  to("verdict", "between P10 and P90 of the prediction, outside of them, or below the lower bound",
     verdict_of(measured, true));
  to("sentence", "the verdict in words", verdict_sentence(measured, bound_s));
  to("convention", "how FLOPs of the given rate are taken to be counted; null: a time or tokens",
     conventions.empty() ? std::nullopt : std::optional(conventions[0].name));
  to("conventions", "all ways of counting them, by distance to the prediction", conventions);
  to("causes", "what may have moved it from the middle of the prediction, the largest first",
     causes_of(measured, "step_s", "seconds of the step that it alone may make"));
  to("memory", "with --measured-memory, or of a log: the measured peak of the fullest GPU",
     Maybe(measured.memory, [](auto& part_to, const auto& memory) { memory_fields(part_to, memory); }));
  to("log", "the training log that the step was read from; null: none",
     Maybe(measured.log, [&](auto& part_to, const auto& log) { log_fields(part_to, measured, log); }));
}

// Numbers of a list, null for those that are none.
std::vector<std::optional<double>> finite_ones(const std::vector<double>& values) {
  std::vector<std::optional<double>> finite;
  for (const double value : values) finite.push_back(if_finite(value));
  return finite;
}

void training_fields(auto& to, const TrainingReport& training) {
  to("clock", "wall | cpu | simulated | gpu", training.clock);
  to("date", "when the training ended, UTC", training.date);
  to("emulated_rank", "the pipeline rank that ran alone", training.emulated_rank);
  to("notes", "what to know about the run", training.notes);
  to("first_step", "number of the first executed step", training.first_step);
  to("loss", "training loss by step", finite_ones(training.losses));
  to("gradient_norm", "norm of the gradient by step", finite_ones(training.gradient_norms));
  to("seconds", "seconds of each step", training.seconds);
  to("measured_seconds", "seconds of the steps whose median step.time_s is", training.measured_seconds);
  to("skipped", "steps whose gradients overflowed", training.skipped);
  to("expert_load", "rows of experts in the executed steps",
     List(training.loads, [](auto& load_to, const TrainingReport::Load& load) {
       load_to("layer", "number of the layer", load.layer);
       load_to("max_violation", "largest load over the mean, less one", load.max_violation);
       load_to("variation", "deviation of the loads over the mean", load.variation);
       load_to("rows", "rows of each expert", load.rows);
     }));
  to("host_issue_s", "seconds in which the host issues a step", training.issue_s);
  to("device_memory_bytes", "bytes that the program allocated on the device", training.device_memory_bytes);
}

void timeline_fields(auto& to, const model::Timeline& timeline) {
  const Json columns = {"name", "rank", "stream", "layer", "micro_batch", "start_ps", "duration_ps", "depth"};
  const Json span = {{"type", "array"}, {"items", {{"type", "integer"}}}, {"minItems", 8}, {"maxItems", 8}};
  const Json spans = list_of<Json>(timeline.spans, [](const model::Span& s) {
    return Json{s.name,     s.rank,        static_cast<int>(s.stream), s.layer, s.micro_batch,
                s.start_ps, s.duration_ps, static_cast<int>(s.depth)};
  });
  to("columns", "the columns of spans", Stated<Json>{columns, {{"const", columns}}});
  to("names", "names, to which the first column of a span points", timeline.names);
  to("ranks", "spans of each pipeline rank", timeline.ranks);
  to("end_ps", "picoseconds", timeline.end_ps);
  to("spans", "kernels and transfers of the median step", Stated<Json>{spans, {{"type", "array"}, {"items", span}}});
}

// What a predicted and an executed step have.
void result_fields(auto& to, const model::StepResult& result, const model::Plan& plan) {
  to("step", "", result.step);
  to("interval", "", uncertainty(result.interval));
  to("middle", "", middle_of(result));
  to("power_span_s", "the least and the most seconds of a step under a power limit; null: without one",
     result.power_span_s);
  to("bound", "", bound_of(result));
  to("cluster", "with --fidelity cluster: what the GPUs of the cluster differ in", result.cluster);
  to("run", "null without run.tokens", result.run);
  to("memory", "", result.memory);
  to("provenance", "", provenance_of(result.provenance));
  to("basis", "", basis_of(result));
  to("plan", "", plan_of(plan));
}

void simulate_fields(auto& to, const model::StepResult& result, const model::Plan& plan) {
  result_fields(to, result, plan);
  const double bound_s = result.bound_s.value_or(0);
  to("measured", "with --measured, or a log that is compared: a measured step against this prediction",
     Maybe(result.measured, [bound_s](auto& part_to, const model::MeasuredStep& measured) {
       measured_fields(part_to, measured, bound_s);
     }));
  to("assumed", "", result.assumed);
  to("fit", "", fit_of_memory(result.memory));
}

void run_fields(auto& to, const model::StepResult& result, const model::Plan& plan, const TrainingReport& training,
                const model::Timeline& timeline) {
  result_fields(to, result, plan);
  to("training", "executed steps with their loss", Object([&](auto& part_to) { training_fields(part_to, training); }));
  to("timeline", "spans of the executed step", Object([&](auto& part_to) { timeline_fields(part_to, timeline); }));
}

void level_fields(auto& to, const model::RankLevels& levels) {
  to("rank", "pipeline rank", levels.rank.rank);
  to("fullest_op", "position in ops", levels.fullest);
  to("ops", "memory after each slot", levels.ops);
  to("within_fullest_op", "memory within the slot that reaches the peak", levels.peak);
}

void advice_fields(auto& to, const model::MemoryAdvice& advice) {
  to("tried", "how many changes were tried", advice.tried);
  to("fitting", "changes with which the plan fits", advice.fitting);
  to("closest", "the change that comes closest to fitting, where none fits", advice.closest);
}

void memory_output_fields(auto& to, const model::Memory& memory, const model::Plan& plan,
                          const MemoryDetails& details) {
  const auto levels = details.levels == nullptr ? std::nullopt : std::optional(*details.levels);
  const auto advice = details.advice == nullptr ? std::nullopt : std::optional(*details.advice);
  to("memory", "memory of the ranks", Object([&](auto& part_to) {
       fields(part_to, memory);
       part_to("timeline", "one rank over the step",
               Maybe(levels, [](auto& level_to, const auto& of) { level_fields(level_to, of); }));
       part_to("advice", "changes that make the plan fit; null where it fits",
               Maybe(advice, [](auto& advice_to, const auto& of) { advice_fields(advice_to, of); }));
       part_to("constants", "constants that the memory rests on", details.constants);
     }));
  to("plan", "", plan_of(plan));
  to("fit", "", fit_of_memory(memory));
}

template <class Value>
std::string text_of(const Value& value) {
  return text_of_json(written<Json>(value));
}

}  // namespace

std::string to_json(const model::StepResult& result, const model::Plan& plan) {
  return document("simulate", object_of<Json>([&](auto& to) { simulate_fields(to, result, plan); }));
}

std::string to_json(const model::StepResult& result, const model::Plan& plan, const TrainingReport& training,
                    const model::Timeline& timeline) {
  return document("run", object_of<Json>([&](auto& to) { run_fields(to, result, plan, training, timeline); }), -1);
}

std::string step_json(const model::StepTimes& step) { return text_of(step); }

std::string run_json(const std::optional<model::RunCost>& run) { return text_of(run); }

std::string middle_json(const model::StepResult& result) { return text_of(middle_of(result)); }

std::string assumed_json(const std::vector<model::AssumedKey>& assumed) { return text_of(assumed); }

std::string fit_json(const model::Memory& memory) { return text_of(fit_of_memory(memory)); }

std::string interval_json(const std::optional<model::PredictionInterval>& interval) {
  return text_of(uncertainty(interval));
}

std::string memory_to_json(const model::Memory& memory, const model::Plan& plan, const MemoryDetails& details) {
  return document("memory", object_of<Json>([&](auto& to) { memory_output_fields(to, memory, plan, details); }));
}

std::string memory_csv(const model::Memory& memory) { return csv_of_rows(written<Json>(memory)["stages"]); }

std::string step_definitions() {
  const auto of = [](std::string_view description, const auto& value) {
    return with_description(description, Schema<Json>::in_full(value));
  };
  const auto envelope = [](auto& to) {
    to("version", "version of plumbline that wrote the document", std::string());
    to("schema", "version of this contract", Stated<Json>{nullptr, {{"const", model::schema}}});
    to("output", "name of the document: OUTPUT.schema.json describes it", std::string());
  };
  Word evidence;
  for (const model::Evidence kind : {model::Evidence::measured, model::Evidence::fitted, model::Evidence::published,
                                     model::Evidence::datasheet, model::Evidence::assumed})
    evidence.words.push_back(to_string(kind));
  Word price_kind = evidence;
  price_kind.words.push_back("stated");
  const model::StepResult result;
  return text_of_json(Json{
      {"plumbline", of("Who wrote the document, and by which contract.", Object(envelope))},
      {"evidence", of("What a value rests on.", evidence)},
      {"price_kind", of("What a price of a GPU-hour rests on; stated: by the plan or an offer.", price_kind)},
      {"quantiles", of("The quantiles of a prediction, in the unit of its key; null: not drawn, or never reached.",
                       model::Quantiles())},
      {"per_op", of("One value for each kind of slot; null: the schedule has none.", model::PerOp())},
      {"step", of("A step of training.", model::StepTimes())},
      {"middle",
       of("The prediction in the middle of its interval, as clusters run it; null: without one.", middle_of(result))},
      {"interval", of("How uncertain a prediction is.", uncertainty(result.interval))},
      {"bound", of("The lower bound of the step.", bound_of(result))},
      {"price", of("A price of a GPU-hour: with all of its keys, or null with what is missing.",
                   price_of(model::RunCost().rent))},
      {"run", of("The whole training.", model::RunCost())},
      {"fit", of("Whether it fits in memory; null where it was measured.", fit_of_memory(model::Memory()))},
      {"memory", of("Memory of a GPU of each pipeline rank.", model::Memory())},
      {"constant", of("A constant with its source.", model::Parameter())},
      {"provenance", of("The constants that the prediction rests on.", std::vector<ConstantOfStep>())},
      {"basis", of("What the prediction was made with.", basis_of(result))},
      {"cluster", of("What the GPUs of a cluster differ in, drawn by seed.", model::ClusterSpread())},
      {"assumed", of("What the plan leaves open of the software and moves the prediction by more than 5 %, most first.",
                     std::vector<model::AssumedKey>())}});
}

std::string simulate_schema() {
  return text_of_json(document_schema<Json>(
      "simulate", "plumbline simulate PLAN --json",
      "A predicted step of training. Written for plans that do not fit in memory, too (memory.fits).",
      [](auto& to) { simulate_fields(to, model::StepResult(), model::Plan()); }));
}

std::string run_schema() {
  return text_of_json(document_schema<Json>(
      "run", "plumbline run PLAN --json",
      "A step that was executed: the keys of a predicted one, with what was measured.",
      [](auto& to) { run_fields(to, model::StepResult(), model::Plan(), TrainingReport(), model::Timeline()); }));
}

std::string memory_schema() {
  return text_of_json(document_schema<Json>(
      "memory", "plumbline memory PLAN --json", "Memory of every pipeline rank, and of one over a step.",
      [](auto& to) { memory_output_fields(to, model::Memory(), model::Plan(), MemoryDetails()); }));
}

}  // namespace plumbline::reports
