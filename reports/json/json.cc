#include "reports/json/json.h"

#include <nlohmann/json.hpp>
#include <string_view>

#include "model/base/version.h"
#include "reports/json/detail/answer_parts.h"
#include "reports/quantities.h"
#include "reports/text/step/sections.h"

namespace plumbline::reports {

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
     fit_word(where(predicted, model::fit_of(of)), true));
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

void fields(auto& to, const model::RankLevels& levels) {
  to("rank", "pipeline rank", levels.rank.rank);
  to("fullest_op", "position in ops", levels.fullest);
  to("ops", "memory after each slot", levels.ops);
  to("within_fullest_op", "memory within the slot that reaches the peak", levels.peak);
}

void fields(auto& to, const model::MemoryAdvice& advice) {
  to("tried", "how many changes were tried", advice.tried);
  to("fitting", "changes with which the plan fits", advice.fitting);
  to("closest", "the change that comes closest to fitting, where none fits", advice.closest);
}

void fields(auto& to, const model::MeasuredMemory& memory) {
  static const std::vector<std::string_view> counts = {"device", "reserved", "allocated"};
  to("peak_bytes", "bytes of the device: measured, with those added", memory.peak_bytes);
  to("percentile", "of 100 such runs, how many take less", memory.share_below * hundred);
  to("sentence", "where it lies, in words", memory_verdict(memory));
  to("counted", "by the measurement: the device, what the allocator reserved, or tensors",
     Word{counts[static_cast<std::size_t>(memory.counted)], counts});
  to("added_bytes", "what was not counted, as predicted", memory.added_bytes);
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

using Json = nlohmann::ordered_json;

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
  to("memory", "with --measured-memory, or of a log: the measured peak of the fullest GPU", measured.memory);
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
  std::vector<ConstantOfStep> constants;
  for (const model::ProvenanceEntry& entry : result.provenance)
    constants.push_back({entry.parameter, entry.share_of_step});
  to("step", "", result.step);
  to("interval", "", uncertainty(result.interval));
  to("middle", "", middle_of(result));
  to("power_span_s", "the least and the most seconds of a step under a power limit; null: without one",
     result.power_span_s);
  to("bound", "", bound_of(result));
  to("cluster", "with --fidelity cluster: what the GPUs of the cluster differ in", result.cluster);
  to("run", "null without run.tokens", result.run);
  to("memory", "", result.memory);
  to("provenance", "", constants);
  to("basis", "", basis_of(result));
  to("plan", "", plan_part<Json>(plan));
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
  to("rollout", "of a plan with [rollout]: a step of reinforcement learning, whose update of the policy `step` is",
     Maybe(result.rollout, [](auto& part_to, const model::RolloutResult& of) { rollout_fields(part_to, of); }));
  to("rollout_reason", "of a plan with [rollout] whose engines cannot be: why; else null",
     unless_empty(result.rollout_error ? model::reason_of(*result.rollout_error) : ""));
}

void run_fields(auto& to, const model::StepResult& result, const model::Plan& plan, const TrainingReport& training,
                const model::Timeline& timeline) {
  result_fields(to, result, plan);
  to("training", "executed steps with their loss", Object([&](auto& part_to) { training_fields(part_to, training); }));
  to("timeline", "spans of the executed step", Object([&](auto& part_to) { timeline_fields(part_to, timeline); }));
}

void memory_output_fields(auto& to, const model::Memory& memory, const model::Plan& plan,
                          const MemoryDetails& details) {
  const auto levels = details.levels == nullptr ? std::nullopt : std::optional(*details.levels);
  const auto advice = details.advice == nullptr ? std::nullopt : std::optional(*details.advice);
  to("memory", "memory of the ranks", Object([&](auto& part_to) {
       fields(part_to, memory);
       part_to("timeline", "one rank over the step", levels);
       part_to("advice", "changes that make the plan fit; null where it fits", advice);
       part_to("constants", "constants that the memory rests on", details.constants);
     }));
  to("plan", "", plan_part<Json>(plan));
  to("fit", "", fit_of_memory(memory));
  to("rollout", "of a plan with [rollout], both halves of a step, whose update `memory` is of; else null",
     Maybe(details.rollout, [](auto& part_to, const model::RolloutMemory& of) { rollout_memory_fields(part_to, of); }));
  to("rollout_reason", "of a plan with [rollout] whose engines cannot be: why; else null",
     unless_empty(details.rollout_reason));
}

}  // namespace

template <class Json>
Json step_keys(const model::StepResult& result, const model::Plan& plan) {
  return object_of<Json>([&](auto& to) { simulate_fields(to, result, plan); });
}
template Json step_keys<Json>(const model::StepResult& result, const model::Plan& plan);

std::string to_json(const model::StepResult& result, const model::Plan& plan) {
  return document("simulate", step_keys<Json>(result, plan));
}

std::string to_json(const model::StepResult& result, const model::Plan& plan, const TrainingReport& training,
                    const model::Timeline& timeline) {
  return document("run", object_of<Json>([&](auto& to) { run_fields(to, result, plan, training, timeline); }), -1);
}

std::string step_json(const model::StepTimes& step) { return text_of_json(written<Json>(step)); }

std::string memory_to_json(const model::Memory& memory, const model::Plan& plan, const MemoryDetails& details) {
  return document("memory", object_of<Json>([&](auto& to) { memory_output_fields(to, memory, plan, details); }));
}

std::string memory_csv(const model::Memory& memory) { return csv_of_rows(written<Json>(memory)["stages"]); }

std::string step_definitions() {
  const auto of = [](std::string_view description, const auto& value) { return definition<Json>(description, value); };
  const auto envelope = [](auto& to) {
    to("version", "version of plumbline that wrote the document", std::string());
    to("schema", "version of this contract", Stated<Json>{nullptr, {{"const", model::schema}}});
    to("output", "name of the document: OUTPUT.schema.json describes it", std::string());
  };
  Word evidence;
  for (const model::Evidence kind : {model::Evidence::measured, model::Evidence::fitted, model::Evidence::published,
                                     model::Evidence::datasheet, model::Evidence::assumed})
    evidence.words.push_back(to_string(kind));
  PriceKind price_kind{evidence};
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
  return keys_schema<Json>([](auto& to) { simulate_fields(to, model::StepResult(), model::Plan()); });
}

std::string run_schema() {
  return keys_schema<Json>(
      [](auto& to) { run_fields(to, model::StepResult(), model::Plan(), TrainingReport(), model::Timeline()); });
}

std::string memory_schema() {
  return keys_schema<Json>([](auto& to) { memory_output_fields(to, model::Memory(), model::Plan(), MemoryDetails()); });
}

}  // namespace plumbline::reports
