#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/memory/memory.h"
#include "model/result/middle.h"
#include "reports/generation_report.h"
#include "reports/json/detail/measured_parts.h"
#include "reports/json/detail/schemas.h"
#include "reports/json/detail/shared_fields.h"
#include "reports/json/json.h"
#include "reports/quantities.h"
#include "reports/text/serving/serving_report.h"
#include "reports/text/step/sections.h"

namespace plumbline::reports {
namespace {

using Json = nlohmann::ordered_json;

struct ServingMiddle {
  model::ServingResult result;
};

std::optional<ServingMiddle> middle_of(const model::ServingResult& result) {
  return result.interval ? std::optional(ServingMiddle{model::middle_serving(result)}) : std::nullopt;
}

}  // namespace

void fields(auto& to, const ServingMiddle& of) {
  const model::ServingResult& middle = of.result;
  to("tpot_s", middle.tpot_s, "seconds of an output token after the first");
  to("ttft_unloaded_s", middle.ttft_unloaded_s, "seconds to the first token of a request alone");
  to("itl_worst_s", middle.itl_worst_s, "seconds of the longest pause between tokens");
  to("output_tokens_per_s", middle.output_tokens_per_s, "output tokens a second");
  to("output_tokens_per_s_per_gpu", middle.output_tokens_per_s_per_gpu, "output tokens a second and GPU");
  to("output_tokens_per_s_per_node", middle.output_tokens_per_s_per_node, "output tokens a second and node");
  to("input_tokens_per_s_per_gpu", middle.input_tokens_per_s_per_gpu, "input tokens a second and GPU");
  to("usd_per_million_output_tokens", middle.usd_per_million_output_tokens, "cost of a million output tokens");
  to("usd_per_million_input_tokens", middle.usd_per_million_input_tokens, "cost of a million input tokens");
  to("usd_per_million_tokens_all_in", middle.usd_per_million_tokens_all_in,
     "cost of all GPUs over a million output tokens");
  to("demand_gpus", middle.demand_gpus, "GPUs for the stated demand");
  to("ttft_s", middle.ttft_s, "seconds to the first token at that load");
  to("usd_per_million_output_tokens_of_demand", middle.usd_per_million_output_tokens_of_demand,
     "cost of a million output tokens, of the whole GPUs that the demand takes");
  to("demand_prefill_gpus", middle.demand_prefill_gpus, "those that only prefill; null where both phases share GPUs");
  to("demand_decode_gpus", middle.demand_decode_gpus, "those that only decode; null where both phases share GPUs");
}
template <>
inline constexpr std::string_view definition_name<std::optional<ServingMiddle>> = "serving_middle";

namespace {

Word bound_word(model::ServingBound bound) {
  using enum model::ServingBound;
  Word word = {model::to_string(bound), {}};
  for (const model::ServingBound one : {weights, kv, compute, links, latency, host})
    word.words.push_back(to_string(one));
  return word;
}

void deployment_fields(auto& to, const model::ServingResult& result) {
  visit_serving(
      result, [&to](const char* key, const auto& value, const char*, const char* meaning) { to(key, value, meaning); });
  to("bound_by", bound_word(result.bound_by), "what binds most of a decode step");
  to("interval",
     Maybe(result.interval,
           [](auto& part_to, const model::ServingInterval& interval) {
             visit_serving_quantiles(interval, [&](const char* key, const auto& found, const char*,
                                                   const char* meaning) { part_to(key, found, meaning); });
           }),
     "range with p10, p50 and p90");
  to("middle", middle_of(result), "");
}

void measured_deployment_fields(auto& to, const sim::MeasuredDeployment& found) {
  const model::MeasuredStep& measured = found.measured;
  to("given", measured.given, "the measured value, as it was given");
  to("tpot_s", measured.time_s, "seconds of an output token that it means");
  to("percentile", measured.share_below * hundred, "of 100 such deployments, how many are faster");
  to("verdict", verdict_of(measured, false), "between P10 and P90 of the prediction, or outside of them");
  to("sentence", verdict_sentence(measured, 0), "the verdict in words");
  to("causes", causes_of(measured, "tpot_s", "seconds of an output token that it alone may make"),
     "what may have moved it from the middle of the prediction, the largest first");
  to("predicted_tpot_s", found.predicted, "");
}

// With all of its keys where there is none.
void interval_fields(auto& to, const std::optional<model::ServingInterval>& known) {
  const model::ServingInterval interval = known.value_or(model::ServingInterval());
  visit_serving_quantiles(
      interval, [&to](const char* key, const auto& quantiles, auto...) { to(key, QuantilesOrNulls{quantiles}, ""); });
  to("parts",
     List(interval.parts,
          [](auto& part_to, const model::IntervalPart& part) {
            part_to("source", part.source, "where it is from");
            part_to("share", part.share, "of the variance");
          }),
     "the parts it is made of");
  to("limits_probability", interval.limits_probability,
     "that the limits of TPOT and TTFT are kept; null: without limits");
}

void pool_fields(auto& to, const model::ServingPool& pool) {
  to("pool", pool.name, "GPUs that prefill, decode or do both");
  to("gpus", pool.gpus, "number of GPUs");
  to("instances", pool.instances, "copies of the model");
  to("gpus_per_instance", pool.gpus_per_instance, "GPUs of one instance of the model");
  to("tensor", pool.tensor, "ranks of tensor parallelism");
  to("pipeline", pool.pipeline, "ranks of pipeline parallelism");
  to("expert", pool.expert, "ranks of expert parallelism");
  to("attention_data", pool.attention_data, "groups of tensor ranks with requests of their own");
  to("redundant_experts", pool.redundant_experts, "copies of loaded experts");
  to("step_s", pool.step_s, "seconds of a step");
  to("tokens_per_step", pool.tokens_per_step, "tokens of a step");
  to("batch_per_gpu", pool.batch_per_gpu, "requests in flight on a GPU");
  to("kv_capacity_tokens", pool.kv_capacity_tokens, "tokens whose keys and values fit");
  to("bound_by", bound_word(pool.bound_by), "what limits it: compute, memory, communication or launches");
  to("parts",
     List(pool.parts,
          [](auto& part_to, const model::ServingPart& part) {
            part_to("part", part.name, "part of a layer or of the pass");
            part_to("seconds", part.seconds, "seconds");
            part_to("hidden_s", part.hidden_s, "seconds behind others");
            part_to("bound_by", bound_word(part.bound), "what limits it: compute, memory, communication or launches");
          }),
     "the parts it is made of");
}

// A deployment that was predicted has space for its weights and a request.
model::Fit fit_of_serving(const model::ServingResult& result) {
  return model::fit_of(result.fits_probability.value_or(1));
}

// What is free is the space for keys and values.
std::optional<FitInMemory> fit_in_memory(const model::ServingResult& result) {
  if (result.pools.empty()) return std::nullopt;
  const double free = std::ranges::min(result.pools, {}, &model::ServingPool::kv_bytes).kv_bytes;
  return FitInMemory{fit_of_serving(result), result.fits_probability, free};
}

// The pools take the place of the stages of a training. A serving GPU holds no gradients and no optimizer states.
void memory_of_serving(auto& to, const model::ServingResult& result) {
  static const std::vector<std::string_view> verdicts = {"fits", "at the edge", "does not fit"};
  const model::Memory memory = model::memory_of(result);
  to("peak_bytes", memory.peak_bytes, "bytes of the fullest rank");
  to("capacity_bytes", memory.capacity_bytes, "bytes of a GPU");
  to("fits", memory.fits, "whether it fits in memory");
  std::size_t stage = 0;
  to("stages",
     List(result.pools,
          [&stage](auto& stage_to, const model::ServingPool& pool) {
            const double bytes = pool.weights_bytes + pool.activations_bytes + pool.reserve_bytes + pool.kv_bytes;
            stage_to("stage", stage++, "number of the pipeline stage");
            stage_to("pool", pool.name, "GPUs that prefill, decode or do both");
            stage_to("parameters_bytes", pool.weights_bytes, "bytes of parameters");
            stage_to("gradients_bytes", 0, "bytes of gradients");
            stage_to("optimizer_bytes", 0, "bytes of optimizer states");
            stage_to("activations_bytes", pool.activations_bytes, "bytes of kept activations");
            stage_to("buffers_bytes", pool.reserve_bytes, "temporary buffers, buffers of communication and reserves");
            stage_to("kv_bytes", pool.kv_bytes, "keys and values");
            stage_to("peak_bytes", bytes, "bytes at the highest moment");
          }),
     "one for each pool");
  to("fits_probability", result.fits_probability,
     "how probable it is that an instance starts and holds a request; null: not drawn");
  to("verdict", Word{model::to_string(fit_of_serving(result)), verdicts},
     "fits: with 95 % or more; does not fit: with less than 5 %");
}

void frontier_fields(auto& to, const model::ServingPoint& point) {
  to("concurrency", point.concurrency, "requests in flight");
  to("batch_per_gpu", point.batch_per_gpu, "requests in flight on a GPU");
  to("tpot_s", point.tpot_s, "seconds of an output token after the first");
  to("ttft_unloaded_s", point.ttft_unloaded_s, "seconds to the first token of a request alone");
  to("output_tokens_per_s_per_gpu", point.output_tokens_per_s_per_gpu, "output tokens a second and GPU");
  to("usd_per_million_output_tokens", point.usd_per_million_output_tokens, "cost of a million output tokens");
  to("within_limits", point.within_limits, "whether all limits are met");
  to("dominated", point.dominated, "whether another point is faster for users or GPUs, and slower for neither");
  to("ttft_s", point.ttft_s, "seconds to the first token at that load");
}

void deployment_in_full(auto& to, const model::ServingResult& result) {
  visit_serving(
      result, [&to](const char* key, const auto& value, const char*, const char* meaning) { to(key, value, meaning); });
  to("bound_by", bound_word(result.bound_by), "what binds most of a decode step");
  to("interval", Object{[&result](auto& part_to) { interval_fields(part_to, result.interval); }},
     "range with p10, p50 and p90");
  to("pools", List(result.pools, [](auto& pool_to, const model::ServingPool& pool) { pool_fields(pool_to, pool); }),
     "pools of GPUs");
  to("frontier",
     List(result.frontier, [](auto& point_to, const model::ServingPoint& point) { frontier_fields(point_to, point); }),
     "the deployment by requests in flight");
  to("notes", result.notes, "what to know about it");
  to("middle", middle_of(result), "");
}

void serving_fields(auto& to, const ServingReport& report) {
  std::vector<ConstantOfStep> constants;
  for (const model::Parameter& constant : report.result.constants) constants.push_back({constant, std::nullopt});
  to("serving", Object{[&](auto& part_to) { deployment_in_full(part_to, report.result); }},
     "what the deployment does in its steady state");
  to("memory", Object{[&](auto& part_to) { memory_of_serving(part_to, report.result); }}, "memory of the ranks");
  to("provenance", constants, "");
  to("basis", Object{[&](auto& part_to) {
       part_to("profile", report.inputs.profile.name(), "profile with the constants");
       part_to("stack", unless_empty(report.inputs.profile.stack()), "software stack");
       part_to("device", report.inputs.cluster.device.name, "name of the GPU");
     }},
     "what the prediction rests on");
  to("plan", embedded<Json>("plan", plan_json(report.inputs.plan)), "");
  to("assumed", embedded<Json>("assumed", assumed_json(report.result.assumed)), "");
  to("fit", fit_in_memory(report.result), "");
  to("measured",
     Maybe(report.measured, [](auto& part_to, const auto& found) { measured_deployment_fields(part_to, found); }),
     "with --measured: a measured deployment against this prediction");
}

std::string text_of_tokens(const std::vector<std::int32_t>& tokens) {
  std::string text;
  for (const std::int32_t token : tokens) text += static_cast<char>(token);
  return text;
}

void generation_fields(auto& to, const GenerationReport& report, const model::Plan& plan) {
  const bool decoded = report.tpot_s > 0;
  const auto gpus = static_cast<double>(report.gpus);
  const auto tpot = where(decoded, report.tpot_s);
  to("serving", Object{[&](auto& part_to) {
       part_to("measured", Stated<Json>{true, {{"const", true}}}, "what was measured");
       part_to("concurrency", report.requests(), "requests in flight");
       part_to("batch_per_gpu", report.requests() / gpus, "requests in flight on a GPU");
       part_to("tpot_s", tpot, "seconds of an output token after the first");
       part_to("decode_step_s", tpot, "seconds of a step that decodes");
       part_to("output_tokens_per_s", where(decoded, report.requests() / report.tpot_s), "output tokens a second");
       part_to("output_tokens_per_s_per_gpu", where(decoded, report.requests() / report.tpot_s / gpus),
               "output tokens a second and GPU");
       part_to("prefill_s", report.prefill_s, "seconds of the prefill");
       part_to("prefill_tokens_per_s_per_gpu", report.prompts.empty() ? 0.0 : report.prefill_tokens_per_s_per_gpu(),
               "tokens prefilled a second and GPU");
       part_to("predicted",
               Maybe(report.predicted,
                     [](auto& predicted_to, const model::ServingResult& result) {
                       predicted_to("tpot_s", result.tpot_s, "seconds of an output token after the first");
                       predicted_to("decode_step_s", result.decode_step_s, "seconds of a step that decodes");
                       predicted_to("prefill_tokens_per_s_per_gpu", result.prefill_tokens_per_s_per_gpu,
                                    "tokens prefilled a second and GPU");
                     }),
               "what was predicted");
     }},
     "what the deployment does in its steady state");
  std::size_t place = 0;
  to("generation", Object{[&](auto& part_to) {
       part_to("clock", report.clock, "where times are from: the machine, or predicted");
       part_to("date", report.date, "day on which it was made (ISO 8601)");
       part_to("trained_steps", report.trained_steps, "steps that the checkpoint was trained for");
       part_to("temperature", report.temperature, "temperature of the sampling");
       part_to("seed", report.seed, "seed of the random numbers");
       part_to("decode_s", report.decode_s, "seconds of each decode step");
       part_to("requests",
               List(report.outputs,
                    [&](auto& request_to, const std::vector<std::int32_t>& output) {
                      request_to("prompt", place < report.prompts.size() ? report.prompts[place++] : output,
                                 "tokens of the prompt");
                      request_to("output", output, "its tokens");
                      request_to.only_where(report.are_bytes, "text", text_of_tokens(output),
                                            "the output as text, where tokens are bytes");
                    }),
               "requests one by one");
     }},
     "tokens that were generated");
  to("plan", embedded<Json>("plan", plan_json(plan)), "");
}

}  // namespace

std::string serving_middle_json(const model::ServingResult& result) {
  return text_of_json(written<Json>(middle_of(result)));
}

std::string serving_fit_json(const model::ServingResult& result) {
  return text_of_json(written<Json>(fit_in_memory(result)));
}

std::string serving_quantities_json(const model::ServingResult& result) {
  return text_of_json(written<Json>(Object{[&](auto& to) { deployment_fields(to, result); }}));
}

std::string serving_definitions() {
  const model::ServingResult result;
  const auto deployment = [&result](auto& to) { deployment_fields(to, result); };
  const Json middle = Schema<Json>::in_full(middle_of(result));
  return text_of_json(Json{
      {"deployment", with_description("A deployment in its steady state.", Schema<Json>::of(Object{deployment}))},
      {"serving_middle", with_description("A deployment in the middle of its interval; null: without one.", middle)}});
}

std::string serving_json(const ServingReport& report) {
  return document("serve", written<Json>(Object{[&](auto& to) { serving_fields(to, report); }}));
}

std::string generation_json(const GenerationReport& report, const model::Plan& plan) {
  return document("run-generate", written<Json>(Object{[&](auto& to) { generation_fields(to, report, plan); }}));
}

std::string serving_schema() {
  const sim::Inputs inputs;
  const model::ServingResult result;
  return text_of_json(document_schema<Json>("serve", "plumbline serve PLAN --json",
                                            "A deployment that serves a model in its steady state.", [&](auto& to) {
                                              serving_fields(to, ServingReport{inputs, result});
                                            }));
}

std::string generation_schema() {
  return text_of_json(document_schema<Json>(
      "run-generate", "plumbline run PLAN --generate N --json", "Tokens that an executed model generated.",
      [](auto& to) { generation_fields(to, GenerationReport(), model::Plan()); }));
}

}  // namespace plumbline::reports
