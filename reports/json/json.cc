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
  for (std::size_t i = 0; i < of.size(); ++i) to(model::to_string(static_cast<model::OpType>(i)), of[i], meanings[i]);
}
template <>
inline constexpr std::string_view definition_name<model::PerOp> = "per_op";

void fields(auto& to, const std::array<std::int64_t, 5>& of) {
  constexpr std::array<const char*, 5> meanings = {
      "forward passes of the pipeline rank", "full backward passes of the pipeline rank",
      "backward passes of inputs alone", "backward passes of weights alone",
      "pairs of a forward and a full backward pass"};
  for (std::size_t i = 0; i < of.size(); ++i) to(model::to_string(static_cast<model::OpType>(i)), of[i], meanings[i]);
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
  return Object{[&step](auto& to) {
    visit_breakdown(step, [&to](const std::string& key, std::optional<double> seconds) {
      const auto meaning = meanings.find(key);
      to(key, seconds, meaning == meanings.end() ? "" : meaning->second);
    });
  }};
}

void fields(auto& to, const model::StepTimes& of) {
  visit_step(of,
             [&to](const char* key, const auto& value, const char*, const char* meaning) { to(key, value, meaning); });
  to("breakdown_s", breakdown_of(of),
     "seconds of rank 0 by class of work; they add up to time_s. 0: nothing of the class ran; null: not separated (all "
     "classes in closed form, messages of an executed step, which are part of its bubble)");
}
template <>
inline constexpr std::string_view definition_name<model::StepTimes> = "step";

void fields(auto& to, const model::ClusterSpread& of) {
  visit_cluster(
      of, [&to](const char* key, const auto& value, const char*, const char* meaning) { to(key, value, meaning); });
  to("bubble",
     List(of.bubble,
          [](auto& part_to, const model::BubblePart& part) {
            part_to("cause", part.cause, "what causes it");
            part_to("seconds", part.seconds, "seconds of idle time");
            part_to("step_s", part.step_s, "seconds of the step that it accounts for");
          }),
     "idle time by cause");
}
template <>
inline constexpr std::string_view definition_name<model::ClusterSpread> = "cluster";

void fields(auto& to, const model::IntervalPart& of) {
  to("source", of.source, "what is uncertain");
  to("share", of.share, "its share of the variance of the logarithm of the time");
  to("measurement", unless_empty(of.measurement), "what would make it certain");
  to("half_width_after", of.half_width_after, "half width of the interval after that measurement, relative");
}

// A prediction's interval, with all of its keys where there is none.
auto uncertainty(const std::optional<model::PredictionInterval>& known) {
  return Defined{"interval", [&](auto& to) {
                   const model::PredictionInterval interval = known.value_or(model::PredictionInterval());
                   visit_quantiles(interval, [&](const char* key, const std::optional<model::Quantiles>& found,
                                                 const char*, const char* meaning) {
                     to(key, QuantilesOrNulls{known ? found : std::nullopt}, meaning);
                   });
                   to("fits_probability", where(known.has_value(), interval.fits_probability),
                      "how probable it is that the plan fits in memory");
                   to("left_factor", where(known.has_value(), interval.left_factor),
                      "factor on the time by what is left between predictions and measured steps");
                   to("left_rows", unless_empty(interval.left_rows), "the measured steps behind that factor");
                   to("draws", interval.draws, "predictions behind the quantiles");
                   to("parts", interval.parts, "the parts it is made of");
                 }};
}

// The contract of simulate has the components under `step` and `run`.
void fields(auto& to, const Middle& of) {
  const auto of_run = [&of](double model::RunCost::*quantity) {
    return of.run ? std::optional(*of.run.*quantity) : std::nullopt;
  };
  to("time_s", of.step.time_s, "seconds of the step");
  to("tokens_per_s", of.step.tokens_per_s, "tokens/s");
  to("tokens_per_s_per_gpu", of.step.tokens_per_s_per_gpu, "tokens/s of a GPU");
  to("model_tflops_per_gpu", of.step.model_tflops_per_gpu, "TFLOP/s of a GPU");
  to("mfu", of.step.mfu, "model FLOPs utilisation: share of the dense BF16 peak");
  to("days", of_run(&model::RunCost::days), "days of the whole training");
  to("gpu_hours", of_run(&model::RunCost::gpu_hours), "GPU-hours of the whole training");
  to("cost_usd", of.run ? of.run->cost_usd : std::nullopt, "USD of the whole training");
  to("peak_bytes", of.peak_bytes, "bytes on the fullest rank");
}
template <>
inline constexpr std::string_view definition_name<std::optional<Middle>> = "middle";

auto price_of(const model::Known<model::HourlyPrice>& found) {
  return Defined{"price", [&](auto& to) {
                   const bool known = found.value.has_value();
                   const model::HourlyPrice price = found.value.value_or(model::HourlyPrice());
                   to("usd_per_gpu_hour", where(known, price.value), "USD of a GPU-hour; null: unknown");
                   to.only_where(known, "low", price.low, "lower end");
                   to.only_where(known, "high", price.high, "upper end");
                   to.only_where(known, "kind", Stated<Json>{price.kind, reference<Json>("price_kind")}, "");
                   to.only_where(known, "source", price.source, "where it is from");
                   to.only_where(known, "capital_usd_per_gpu_hour", price.capital, "USD of the hardware");
                   to.only_where(known, "electricity_usd_per_gpu_hour", price.electricity, "USD of electricity");
                   to.only_where(!known, "missing", found.missing, "why no price is known");
                 }};
}

void fields(auto& to, const model::RunCost& of) {
  const auto& price = of.price().value;
  const double hours = of.gpu_hours, all_hours = of.total_gpu_hours;
  visit_run(
      of, [&to](const char* key, const auto& value, const char*, const char* meaning) { to(key, value, meaning); },
      [&] {
        to("phases",
           List(of.phases,
                [](auto& phase_to, const model::RunPhaseCost& phase) {
                  phase_to("name", phase.name, "name of the phase");
                  phase_to("gpu_hours", phase.gpu_hours, "hours of one GPU");
                  phase_to("kind", phase.kind, "what kind of thing it is");
                  phase_to("source", phase.source, "where it is from");
                }),
           "phases one by one");
      });
  to("goodput_source", of.goodput_source, "where the goodput is from");
  to("ownership", of.ownership, "whether the GPUs are rented or bought");
  to("price_usd_per_gpu_hour", where(price.has_value(), price.value_or(model::HourlyPrice()).value),
     "price of a GPU-hour");
  to("cost_usd_low", of.cost_low_usd(hours), "lower end of the cost");
  to("cost_usd_high", of.cost_high_usd(hours), "upper end of the cost");
  to("total_cost_usd_low", of.cost_low_usd(all_hours), "lower end of that cost");
  to("total_cost_usd_high", of.cost_high_usd(all_hours), "upper end of that cost");
  to("rent", price_of(of.rent), "");
  to("purchase", price_of(of.purchase), "");
  to("energy_mwh", of.energy_mwh(hours), "MWh");
  to("total_energy_mwh", of.energy_mwh(all_hours), "MWh with the phases that are stated");
  to("energy_source", energy_source(of), "where the power is from");
  to("fabric", Object{[&of](auto& part_to) {
       part_to("nics", of.fabric.nics, "number of NICs");
       part_to("switches", of.fabric.switches, "number of switches");
       part_to("links", of.fabric.links, "links of the fabric");
       part_to("usd", of.fabric_usd, "price of the fabric");
     }},
     "parts of the network");
}
template <>
inline constexpr std::string_view definition_name<model::RunCost> = "run";

void fields(auto& to, const model::LostTime& of) {
  to("cause", of.cause, "what causes it");
  to("seconds", of.seconds, "seconds by which it makes the step longer");
  to("remedy", of.remedy, "what would change it");
}

auto bound_of(const model::StepResult& result) {
  return Defined{"bound", [&](auto& to) {
                   const bool known = result.bound_s.has_value();
                   const auto lost = where(known, result.lost);
                   to("time_s", result.bound_s,
                      "seconds that no schedule, overlap or kernel at the profile's best rates can beat");
                   to("binds", where(known, result.bound_by), "the resource that sets the bound");
                   to("rank", where(known, result.bound_rank), "the pipeline rank that it holds for");
                   to("lost", lost, "what the step takes above the bound, the largest first");
                   to("flops_at_peak_s", result.flops_at_peak_s,
                      "seconds of the model's FLOPs at the peak of their format");
                 }};
}

void fields(auto& to, const model::Memory& of) {
  static const std::vector<std::string_view> verdicts = {"fits", "at the edge", "does not fit"};
  const model::RankMemory* fullest = model::fullest_rank(of);
  const bool predicted = !of.ranks.empty() && !of.measured;
  to("peak_bytes", of.peak_bytes, "bytes on the fullest rank");
  to("capacity_bytes", of.capacity_bytes, "bytes of a GPU");
  to("fits", of.fits, "whether every rank's peak fits");
  to("stages",
     List(of.ranks,
          [&of](auto& rank_to, const model::RankMemory& rank) {
            rank_to("stage", rank.rank, "pipeline rank");
            rank_to("stages", rank.stages, "the stages on it");
            rank_to("parameters_bytes", rank.parameters_bytes, "bytes of parameters");
            rank_to("gradients_bytes", rank.gradients_bytes, "bytes of gradients");
            rank_to("optimizer_bytes", rank.optimizer_bytes, "bytes of optimizer states");
            rank_to("activations_bytes", rank.activations_bytes, "bytes of kept activations");
            rank_to("buffers_bytes", rank.buffers_bytes(), "temporary buffers, buffers of communication and reserves");
            rank_to("peak_bytes", rank.peak_bytes, "bytes at the highest moment");
            rank_to("temporary_bytes", rank.temporary_bytes, "bytes of temporaries");
            rank_to("communication_bytes", rank.communication_bytes, "bytes of communication buffers");
            rank_to("reserve_bytes", rank.reserve_bytes, "CUDA context, libraries, allocator");
            rank_to("free_bytes", of.capacity_bytes - rank.peak_bytes, "capacity less the peak");
            rank_to("activations_peak_bytes", rank.activations_peak_bytes,
                    "the most that activations take at any moment");
            rank_to("low_bytes", rank.low_bytes, "the least peak of what is uncertain");
            rank_to("high_bytes", rank.high_bytes, "the largest");
            rank_to("allocated_bytes", rank.allocated_bytes, "what tensors take");
            rank_to("segments_bytes", rank.segments_bytes, "what the allocator holds for them");
            rank_to("largest", rank.largest, "what is largest");
            rank_to("peak_operator", rank.peak_operator, "the operator of the highest moment");
            rank_to("host_bytes", rank.host_bytes, "bytes in host memory");
          }),
     "pipeline stages one by one");
  to("fullest_rank", fullest != nullptr ? std::optional(fullest->rank) : std::nullopt, "pipeline rank");
  to("measured", of.measured, "whether an executed step had these peaks");
  to("fits_probability", of.fits_probability, "how probable it is that it fits as clusters run it; null: not drawn");
  to("verdict", Word{where(predicted, model::to_string(model::fit_of(of))), verdicts, true},
     "fits: with 95 % or more; does not fit: with less than 5 %; null: measured");
  to("host_bytes", where(predicted, of.host_bytes), "bytes in the memory of the fullest host; null: measured");
  to("host_capacity_bytes", where(of.host_capacity_bytes > 0, of.host_capacity_bytes),
     "bytes of memory of a host; null: not known");
}
template <>
inline constexpr std::string_view definition_name<model::Memory> = "memory";

auto basis_of(const model::StepResult& result) {
  return Defined{"basis", [&](auto& to) {
                   to("fidelity", result.fidelity, "how the step was predicted: closed-form, step or kernel");
                   to("profile", result.profile, "profile with the constants");
                   to("stack", unless_empty(result.stack), "software stack");
                   to("device", result.device, "name of the GPU");
                   to("warnings", result.warnings, "what to doubt");
                 }};
}

void fields(auto& to, const model::AssumedKey& of) {
  to("key", of.key, "key of a plan");
  to("name", of.name, "what the key is, in words");
  to("value", unless_empty(of.value), "what is predicted with, in words; null: not set");
  to("given_by", unless_empty(of.given_by), "the software stack; null: the default");
  to("other", of.other, "another usual value, in words");
  to("set", of.setting, "KEY=VALUE of the other, for --set");
  to("time_ratio", of.ratio,
     "with the other over as predicted: of the step, or of a deployment's time per output token");
}
template <>
inline constexpr std::string_view definition_name<std::vector<model::AssumedKey>> = "assumed";

void fields(auto& to, const model::MemoryChange& of) {
  to("set", of.settings, "changes, as --set takes them");
  to("peak_bytes", of.peak_bytes, "bytes of the fullest rank");
  to("peak_operator", of.peak_operator, "operator at which the peak is reached");
  to("step_ratio", of.step_ratio, "time of the step over that of the plan, where it fits");
  to("allocated_bytes", of.allocated_bytes, "tensors of the rank that needs most at least");
  to("unused_low_bytes", of.unused_low_bytes, "the least that its allocator holds in addition");
  to("unused_high_bytes", of.unused_high_bytes, "the most, on a device without limit");
  to("fits_probability", of.fits_probability, "how probable it is that it fits");
  to("margin_bytes", of.margin_bytes, "capacity less what it needs at least");
}

void fields(auto& to, const model::RateConvention& of) {
  to("convention", of.name, "what is counted, and of an MFU the peak");
  to("step_s", of.time_s, "seconds of the step that the rate means then");
}

void fields(auto& to, const model::MemoryLevel& of) {
  to("op", of.op, "number of the slot in the order of its rank");
  to("what", of.what, "what the slot computes");
  to("activations_bytes", of.activations_bytes, "bytes of kept activations");
  to("temporary_bytes", of.temporary_bytes, "bytes of temporaries");
  to("communication_bytes", of.communication_bytes, "bytes of communication buffers");
  to("total_bytes", of.total_bytes, "sum of all");
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
  to("format", log.format, "the program that printed it");
  to("steps", log.steps, "lines of steps whose median is taken");
  to("warm_up", log.warm_up, "lines before them that are left out");
  to("pauses", log.pauses, "lines among them that are left out");
  to("damaged", log.damaged, "lines that are cut or have another inside");
  to("p10_s", measured.time_s * log.low, "seconds that a tenth of the steps take less than");
  to("p90_s", measured.time_s * log.high, "seconds that a tenth of the steps take more than");
  to("tflops_per_gpu", log.tflops, "as the log states them");
  to("convention", log.count ? std::optional(log.count->name) : std::nullopt,
     "what these count, by what comes closest to the step");
  to("convention_step_s", log.count ? std::optional(log.count->time_s) : std::nullopt,
     "seconds of the step that they mean then");
}

void memory_fields(auto& to, const model::MeasuredMemory& memory) {
  static const std::vector<std::string_view> counts = {"device", "reserved", "allocated"};
  to("peak_bytes", memory.peak_bytes, "bytes of the device: measured, with those added");
  to("percentile", memory.share_below * hundred, "of 100 such runs, how many take less");
  to("sentence", memory_verdict(memory), "where it lies, in words");
  to("counted", Word{counts[static_cast<std::size_t>(memory.counted)], counts},
     "by the measurement: the device, what the allocator reserved, or tensors");
  to("added_bytes", memory.added_bytes, "what was not counted, as predicted");
}

void measured_fields(auto& to, const model::MeasuredStep& measured, double bound_s) {
  const auto& conventions = measured.conventions;
  to("given", measured.given, "the measured value, as it was given, or the path of a log");
  to("step_s", measured.time_s, "seconds of the step that it means");
  to("percentile", measured.share_below * hundred, "of 100 such runs, how many are faster");
  to("verdict", verdict_of(measured, true),
     "between P10 and P90 of the prediction, outside of them, or below the lower bound");
  to("sentence", verdict_sentence(measured, bound_s), "the verdict in words");
  to("convention", conventions.empty() ? std::nullopt : std::optional(conventions[0].name),
     "how FLOPs of the given rate are taken to be counted; null: a time or tokens");
  to("conventions", conventions, "all ways of counting them, by distance to the prediction");
  to("causes", causes_of(measured, "step_s", "seconds of the step that it alone may make"),
     "what may have moved it from the middle of the prediction, the largest first");
  to("memory", Maybe(measured.memory, [](auto& part_to, const auto& memory) { memory_fields(part_to, memory); }),
     "with --measured-memory, or of a log: the measured peak of the fullest GPU");
  to("log", Maybe(measured.log, [&](auto& part_to, const auto& log) { log_fields(part_to, measured, log); }),
     "the training log that the step was read from; null: none");
}

// Numbers of a list, null for those that are none.
std::vector<std::optional<double>> finite_ones(const std::vector<double>& values) {
  std::vector<std::optional<double>> finite;
  for (const double value : values) finite.push_back(if_finite(value));
  return finite;
}

void training_fields(auto& to, const TrainingReport& training) {
  to("clock", training.clock, "wall | cpu | simulated | gpu");
  to("date", training.date, "when the training ended, UTC");
  to("emulated_rank", training.emulated_rank, "the pipeline rank that ran alone");
  to("notes", training.notes, "what to know about the run");
  to("first_step", training.first_step, "number of the first executed step");
  to("loss", finite_ones(training.losses), "training loss by step");
  to("gradient_norm", finite_ones(training.gradient_norms), "norm of the gradient by step");
  to("seconds", training.seconds, "seconds of each step");
  to("measured_seconds", training.measured_seconds, "seconds of the steps whose median step.time_s is");
  to("skipped", training.skipped, "steps whose gradients overflowed");
  to("expert_load",
     List(training.loads,
          [](auto& load_to, const TrainingReport::Load& load) {
            load_to("layer", load.layer, "number of the layer");
            load_to("max_violation", load.max_violation, "largest load over the mean, less one");
            load_to("variation", load.variation, "deviation of the loads over the mean");
            load_to("rows", load.rows, "rows of each expert");
          }),
     "rows of experts in the executed steps");
  to("host_issue_s", training.issue_s, "seconds in which the host issues a step");
  to("device_memory_bytes", training.device_memory_bytes, "bytes that the program allocated on the device");
}

void timeline_fields(auto& to, const model::Timeline& timeline) {
  const Json columns = {"name", "rank", "stream", "layer", "micro_batch", "start_ps", "duration_ps", "depth"};
  const Json span = {{"type", "array"}, {"items", {{"type", "integer"}}}, {"minItems", 8}, {"maxItems", 8}};
  const Json spans = list_of<Json>(timeline.spans, [](const model::Span& s) {
    return Json{s.name,     s.rank,        static_cast<int>(s.stream), s.layer, s.micro_batch,
                s.start_ps, s.duration_ps, static_cast<int>(s.depth)};
  });
  to("columns", Stated<Json>{columns, {{"const", columns}}}, "the columns of spans");
  to("names", timeline.names, "names, to which the first column of a span points");
  to("ranks", timeline.ranks, "spans of each pipeline rank");
  to("end_ps", timeline.end_ps, "picoseconds");
  to("spans", Stated<Json>{spans, {{"type", "array"}, {"items", span}}}, "kernels and transfers of the median step");
}

// What a predicted and an executed step have.
void result_fields(auto& to, const model::StepResult& result, const model::Plan& plan) {
  to("step", result.step, "");
  to("interval", uncertainty(result.interval), "");
  to("middle", middle_of(result), "");
  to("power_span_s", result.power_span_s,
     "the least and the most seconds of a step under a power limit; null: without one");
  to("bound", bound_of(result), "");
  to("cluster", result.cluster, "with --fidelity cluster: what the GPUs of the cluster differ in");
  to("run", result.run, "null without run.tokens");
  to("memory", result.memory, "");
  to("provenance", provenance_of(result.provenance), "");
  to("basis", basis_of(result), "");
  to("plan", plan_of(plan), "");
}

void simulate_fields(auto& to, const model::StepResult& result, const model::Plan& plan) {
  result_fields(to, result, plan);
  const double bound_s = result.bound_s.value_or(0);
  to("measured",
     Maybe(result.measured,
           [bound_s](auto& part_to, const model::MeasuredStep& measured) {
             measured_fields(part_to, measured, bound_s);
           }),
     "with --measured, or a log that is compared: a measured step against this prediction");
  to("assumed", result.assumed, "");
  to("fit", fit_of_memory(result.memory), "");
}

void run_fields(auto& to, const model::StepResult& result, const model::Plan& plan, const TrainingReport& training,
                const model::Timeline& timeline) {
  result_fields(to, result, plan);
  to("training", Object{[&](auto& part_to) { training_fields(part_to, training); }}, "executed steps with their loss");
  to("timeline", Object{[&](auto& part_to) { timeline_fields(part_to, timeline); }}, "spans of the executed step");
}

void level_fields(auto& to, const model::RankLevels& levels) {
  to("rank", levels.rank.rank, "pipeline rank");
  to("fullest_op", levels.fullest, "position in ops");
  to("ops", levels.ops, "memory after each slot");
  to("within_fullest_op", levels.peak, "memory within the slot that reaches the peak");
}

void advice_fields(auto& to, const model::MemoryAdvice& advice) {
  to("tried", advice.tried, "how many changes were tried");
  to("fitting", advice.fitting, "changes with which the plan fits");
  to("closest", advice.closest, "the change that comes closest to fitting, where none fits");
}

void memory_output_fields(auto& to, const model::Memory& memory, const model::Plan& plan,
                          const MemoryDetails& details) {
  const auto levels = details.levels == nullptr ? std::nullopt : std::optional(*details.levels);
  const auto advice = details.advice == nullptr ? std::nullopt : std::optional(*details.advice);
  to("memory", Object{[&](auto& part_to) {
       fields(part_to, memory);
       part_to("timeline", Maybe(levels, [](auto& level_to, const auto& of) { level_fields(level_to, of); }),
               "one rank over the step");
       part_to("advice", Maybe(advice, [](auto& advice_to, const auto& of) { advice_fields(advice_to, of); }),
               "changes that make the plan fit; null where it fits");
       part_to("constants", details.constants, "constants that the memory rests on");
     }},
     "memory of the ranks");
  to("plan", plan_of(plan), "");
  to("fit", fit_of_memory(memory), "");
}

template <class... Values>
std::string text_of(const Values&... values) {
  return text_of_json(written<Json>(values...));
}

// Returns what fields(to, values ...) writes.
template <class Fields>
Json object_of(const Fields& fields) {
  return written<Json>(Object{fields});
}

}  // namespace

std::string to_json(const model::StepResult& result, const model::Plan& plan) {
  return document("simulate", object_of([&](auto& to) { simulate_fields(to, result, plan); }));
}

std::string to_json(const model::StepResult& result, const model::Plan& plan, const TrainingReport& training,
                    const model::Timeline& timeline) {
  return document("run", object_of([&](auto& to) { run_fields(to, result, plan, training, timeline); }), -1);
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
  return document("memory", object_of([&](auto& to) { memory_output_fields(to, memory, plan, details); }));
}

std::string memory_csv(const model::Memory& memory) { return csv_of_rows(written<Json>(memory)["stages"]); }

std::string step_definitions() {
  const auto of = [](std::string_view description, const auto& value) {
    return with_description(description, Schema<Json>::in_full(value));
  };
  const auto envelope = [](auto& to) {
    to("version", std::string(), "version of plumbline that wrote the document");
    to("schema", Stated<Json>{nullptr, {{"const", model::schema}}}, "version of this contract");
    to("output", std::string(), "name of the document: OUTPUT.schema.json describes it");
  };
  Word evidence;
  for (const model::Evidence kind : {model::Evidence::measured, model::Evidence::fitted, model::Evidence::published,
                                     model::Evidence::datasheet, model::Evidence::assumed})
    evidence.words.push_back(to_string(kind));
  Word price_kind = evidence;
  price_kind.words.push_back("stated");
  const model::StepResult result;
  return text_of_json(Json{
      {"plumbline", of("Who wrote the document, and by which contract.", Object{envelope})},
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
