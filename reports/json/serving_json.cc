#include <nlohmann/json.hpp>

#include "reports/json/detail/answer_parts.h"
#include "reports/text/serving/serving_report.h"
#include "reports/text/step/sections.h"
#include "reports/training_report.h"

namespace plumbline::reports {

void fields(auto& to, const sim::MeasuredDeployment& found) {
  const model::MeasuredStep& measured = found.measured;
  to("given", "the measured value, as it was given", measured.given);
  to("tpot_s", "seconds of an output token that it means", measured.time_s);
  to("percentile", "of 100 such deployments, how many are faster", measured.share_below * hundred);
  to("verdict", "between P10 and P90 of the prediction, or outside of them", verdict_of(measured, false));
  to("sentence", "the verdict in words", verdict_sentence(measured, 0));
  to("causes", "what may have moved it from the middle of the prediction, the largest first",
     causes_of(measured, "tpot_s", "seconds of an output token that it alone may make"));
  to("predicted_tpot_s", "", found.predicted);
}

namespace {

using Json = nlohmann::ordered_json;

// With all of its keys where there is none.
void interval_fields(auto& to, const std::optional<model::ServingInterval>& known) {
  const model::ServingInterval interval = known.value_or(model::ServingInterval());
  visit_serving_quantiles(
      interval, [&to](const char* key, const auto& quantiles, auto...) { to(key, "", QuantilesOrNulls{quantiles}); });
  to("parts", "the parts it is made of", List(interval.parts, [](auto& part_to, const model::IntervalPart& part) {
       part_to("source", "where it is from", part.source);
       part_to("share", "of the variance", part.share);
     }));
  to("limits_probability", "that the limits of TPOT and TTFT are kept; null: without limits",
     interval.limits_probability);
}

}  // namespace

void fields(auto& to, const model::ServingPool& pool) {
  to("pool", "GPUs that prefill, decode or do both", pool.name);
  to("gpus", "number of GPUs", pool.gpus);
  to("instances", "copies of the model", pool.instances);
  to("gpus_per_instance", "GPUs of one instance of the model", pool.gpus_per_instance);
  to("tensor", "ranks of tensor parallelism", pool.tensor);
  to("pipeline", "ranks of pipeline parallelism", pool.pipeline);
  to("expert", "ranks of expert parallelism", pool.expert);
  to("attention_data", "groups of tensor ranks with requests of their own", pool.attention_data);
  to("redundant_experts", "copies of loaded experts", pool.redundant_experts);
  to("step_s", "seconds of a step", pool.step_s);
  to("tokens_per_step", "tokens of a step", pool.tokens_per_step);
  to("batch_per_gpu", "requests in flight on a GPU", pool.batch_per_gpu);
  to("kv_capacity_tokens", "tokens whose keys and values fit", pool.kv_capacity_tokens);
  to("bound_by", "what limits it: compute, memory, communication or launches", bound_word(pool.bound_by));
  to("parts", "the parts it is made of", List(pool.parts, [](auto& part_to, const model::ServingPart& part) {
       part_to("part", "part of a layer or of the pass", part.name);
       part_to("seconds", "seconds", part.seconds);
       part_to("hidden_s", "seconds behind others", part.hidden_s);
       part_to("bound_by", "what limits it: compute, memory, communication or launches", bound_word(part.bound));
     }));
}

namespace {

// The pools take the place of the stages of a training. A serving GPU holds no gradients and no optimizer states.
void memory_of_serving(auto& to, const model::ServingResult& result) {
  const model::Memory memory = model::memory_of(result);
  to("peak_bytes", "bytes of the fullest rank", memory.peak_bytes);
  to("capacity_bytes", "bytes of a GPU", memory.capacity_bytes);
  to("fits", "whether it fits in memory", memory.fits);
  std::size_t stage = 0;
  to("stages", "one for each pool", List(result.pools, [&stage](auto& stage_to, const model::ServingPool& pool) {
       const double bytes = pool.weights_bytes + pool.activations_bytes + pool.reserve_bytes + pool.kv_bytes;
       stage_to("stage", "number of the pipeline stage", stage++);
       stage_to("pool", "GPUs that prefill, decode or do both", pool.name);
       stage_to("parameters_bytes", "bytes of parameters", pool.weights_bytes);
       stage_to("gradients_bytes", "bytes of gradients", 0);
       stage_to("optimizer_bytes", "bytes of optimizer states", 0);
       stage_to("activations_bytes", "bytes of kept activations", pool.activations_bytes);
       stage_to("buffers_bytes", "temporary buffers, buffers of communication and reserves", pool.reserve_bytes);
       stage_to("kv_bytes", "keys and values", pool.kv_bytes);
       stage_to("peak_bytes", "bytes at the highest moment", bytes);
     }));
  to("fits_probability", "how probable it is that an instance starts and holds a request; null: not drawn",
     result.fits_probability);
  to("verdict", "fits: with 95 % or more; does not fit: with less than 5 %", fit_word(fit_of_serving(result)));
}

void deployment_in_full(auto& to, const model::ServingResult& result) {
  decode_fields(to, result);
  to("interval", "range with p10, p50 and p90",
     Object([&result](auto& part_to) { interval_fields(part_to, result.interval); }));
  to("pools", "pools of GPUs", result.pools);
  to("frontier", "the deployment by requests in flight",
     List(result.frontier,
          [](auto& point_to, const model::ServingPoint& point) { point_fields(point_to, point, true); }));
  to("notes", "what to know about it", result.notes);
  to("middle", "", middle_of(result));
  to("state_bytes_per_request", "bytes of the states of a request in recurrent layers, whatever its context",
     result.state_bytes_per_request);
}

void serving_fields(auto& to, const ServingReport& report) {
  std::vector<ConstantOfStep> constants;
  for (const model::Parameter& constant : report.result.constants) constants.push_back({constant, std::nullopt});
  to("serving", "what the deployment does in its steady state",
     Object([&](auto& part_to) { deployment_in_full(part_to, report.result); }));
  to("memory", "memory of the ranks", Object([&](auto& part_to) { memory_of_serving(part_to, report.result); }));
  to("provenance", "", constants);
  to("basis", "what the prediction rests on", Object([&](auto& part_to) {
       part_to("profile", "profile with the constants", report.inputs.profile.name());
       part_to("stack", "software stack", unless_empty(report.inputs.profile.stack()));
       part_to("device", "name of the GPU", report.inputs.cluster.device.name);
     }));
  to("plan", "", plan_part<Json>(report.inputs.plan));
  to("assumed", "", report.result.assumed);
  to("fit", "", fit_in_memory(report.result));
  to("measured", "with --measured: a measured deployment against this prediction", report.measured);
}

void generation_fields(auto& to, const GenerationReport& report, const model::Plan& plan) {
  const bool decoded = report.tpot_s > 0;
  const auto gpus = static_cast<double>(report.gpus);
  const auto tpot = where(decoded, report.tpot_s);
  to("serving", "what the deployment does in its steady state", Object([&](auto& part_to) {
       part_to("measured", "what was measured", Stated<Json>{true, {{"const", true}}});
       part_to("concurrency", "requests in flight", report.requests());
       part_to("batch_per_gpu", "requests in flight on a GPU", report.requests() / gpus);
       part_to("tpot_s", "seconds of an output token after the first", tpot);
       part_to("decode_step_s", "seconds of a step that decodes", tpot);
       part_to("output_tokens_per_s", "output tokens a second", where(decoded, report.requests() / report.tpot_s));
       part_to("output_tokens_per_s_per_gpu", "output tokens a second and GPU",
               where(decoded, report.requests() / report.tpot_s / gpus));
       part_to("prefill_s", "seconds of the prefill", report.prefill_s);
       part_to("prefill_tokens_per_s_per_gpu", "tokens prefilled a second and GPU",
               report.prompts.empty() ? 0.0 : report.prefill_tokens_per_s_per_gpu());
       part_to("predicted", "what was predicted",
               Maybe(report.predicted, [](auto& predicted_to, const model::ServingResult& result) {
                 predicted_to("tpot_s", "seconds of an output token after the first", result.tpot_s);
                 predicted_to("decode_step_s", "seconds of a step that decodes", result.decode_step_s);
                 predicted_to("prefill_tokens_per_s_per_gpu", "tokens prefilled a second and GPU",
                              result.prefill_tokens_per_s_per_gpu);
               }));
     }));
  std::size_t place = 0;
  to("generation", "tokens that were generated", Object([&](auto& part_to) {
       part_to("clock", "where times are from: the machine, or predicted", report.clock);
       part_to("date", "day on which it was made (ISO 8601)", report.date);
       part_to("trained_steps", "steps that the checkpoint was trained for", report.trained_steps);
       part_to("temperature", "temperature of the sampling", report.temperature);
       part_to("seed", "seed of the random numbers", report.seed);
       part_to("decode_s", "seconds of each decode step", report.decode_s);
       part_to("requests", "requests one by one",
               List(report.outputs, [&](auto& request_to, const std::vector<std::int32_t>& output) {
                 request_to("prompt", "tokens of the prompt",
                            place < report.prompts.size() ? report.prompts[place++] : output);
                 request_to("output", "its tokens", output);
                 request_to.only_where(report.are_bytes, "text", "the output as text, where tokens are bytes",
                                       std::string(output.begin(), output.end()));
               }));
     }));
  to("plan", "", plan_part<Json>(plan));
}

}  // namespace

std::string serving_definitions() {
  const model::ServingResult result;
  return text_of_json(
      Json{{"deployment", definition<Json>("A deployment in its steady state.", result)},
           {"serving_middle",
            definition<Json>("A deployment in the middle of its interval; null: without one.", middle_of(result))}});
}

std::string serving_json(const ServingReport& report) {
  return document("serve", object_of<Json>([&](auto& to) { serving_fields(to, report); }));
}

std::string generation_json(const GenerationReport& report, const model::Plan& plan) {
  return document("run-generate", object_of<Json>([&](auto& to) { generation_fields(to, report, plan); }));
}

std::string serving_schema() {
  const sim::Inputs inputs;
  const model::ServingResult result;
  return keys_schema<Json>([&](auto& to) { serving_fields(to, ServingReport{inputs, result}); });
}

std::string generation_schema() {
  return keys_schema<Json>([](auto& to) { generation_fields(to, GenerationReport(), model::Plan()); });
}

}  // namespace plumbline::reports
