#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/memory/memory.h"
#include "reports/generation_report.h"
#include "reports/json/document.h"
#include "reports/json/json.h"
#include "reports/quantities.h"
#include "reports/text/serving/serving_report.h"

namespace plumbline::reports {
namespace {

using Json = nlohmann::ordered_json;

Json interval_of_serving(const std::optional<model::ServingInterval>& interval) {
  const model::ServingInterval known = interval.value_or(model::ServingInterval());
  Json json = Json::object();
  visit_serving_quantiles(known, [&](const char* key, const auto& quantiles, const char*) {
    json[key] = quantiles_or_nulls<Json>(quantiles);
  });
  json["parts"] = LISTED(known.parts, source, share);
  json["limits_probability"] = json_of<Json>(known.limits_probability);
  return json;
}

Json pool_of(const model::ServingPool& pool) {
  return joined<Json>({{{"pool", pool.name}},
                       FIELDS(pool, gpus, instances, gpus_per_instance, tensor, pipeline, expert, attention_data,
                              redundant_experts, step_s, tokens_per_step, batch_per_gpu, kv_capacity_tokens, bound_by),
                       {{"parts", list_of<Json>(pool.parts, [&](const model::ServingPart& part) {
                           return Json{{"part", part.name},
                                       {"seconds", part.seconds},
                                       {"hidden_s", part.hidden_s},
                                       {"bound_by", model::to_string(part.bound)}};
                         })}}});
}

// A deployment that was predicted has space for its weights and a request.
model::Fit fit_of_serving(const model::ServingResult& result) {
  return model::fit_of(result.fits_probability.value_or(1));
}

// The pools take the place of the stages of a training. A serving GPU holds no gradients and no optimizer states.
Json memory_of_serving(const model::ServingResult& result) {
  Json stages = Json::array();
  for (const model::ServingPool& pool : result.pools) {
    const double bytes = pool.weights_bytes + pool.activations_bytes + pool.reserve_bytes + pool.kv_bytes;
    stages.push_back({{"stage", stages.size()},
                      {"pool", pool.name},
                      {"parameters_bytes", pool.weights_bytes},
                      {"gradients_bytes", 0},
                      {"optimizer_bytes", 0},
                      {"activations_bytes", pool.activations_bytes},
                      {"buffers_bytes", pool.reserve_bytes},
                      {"kv_bytes", pool.kv_bytes},
                      {"peak_bytes", bytes}});
  }
  const model::Memory memory = model::memory_of(result);
  return {{"peak_bytes", memory.peak_bytes},
          {"capacity_bytes", memory.capacity_bytes},
          {"fits", memory.fits},
          {"stages", stages},
          {"fits_probability", json_of<Json>(result.fits_probability)},
          {"verdict", model::to_string(fit_of_serving(result))}};
}

Json serving_of(const model::ServingResult& result) {
  Json json = Json::object();
  visit_serving(result, [&](const char* key, const auto& value, const char*) { json[key] = json_of<Json>(value); });
  json["bound_by"] = model::to_string(result.bound_by);
  json["interval"] = interval_of_serving(result.interval);
  json["pools"] = list_of<Json>(result.pools, pool_of);
  json["frontier"] =
      LISTED(result.frontier, concurrency, batch_per_gpu, tpot_s, ttft_unloaded_s, output_tokens_per_s_per_gpu,
             usd_per_million_output_tokens, within_limits, dominated, ttft_s);
  json["notes"] = result.notes;
  json["middle"] = Json::parse(serving_middle_json(result));
  return json;
}

}  // namespace

// What is free is the space for keys and values.
std::string serving_fit_json(const model::ServingResult& result) {
  if (result.pools.empty()) return text_of_json(Json(nullptr));
  const double free = std::ranges::min(result.pools, {}, &model::ServingPool::kv_bytes).kv_bytes;
  return text_of_json(fit_object<Json>(result.fits_probability, fit_of_serving(result), free));
}

std::string serving_json(const ServingReport& report) {
  const sim::Inputs& inputs = report.inputs;
  return document("serve", Json{{"serving", serving_of(report.result)},
                                {"memory", memory_of_serving(report.result)},
                                {"provenance", list_of<Json>(report.result.constants,
                                                             [](const model::Parameter& constant) {
                                                               return constant_json<Json>(constant, std::nullopt);
                                                             })},
                                {"basis",
                                 {{"profile", inputs.profile.name()},
                                  {"stack", text_or_null<Json>(inputs.profile.stack())},
                                  {"device", inputs.cluster.device.name}}},
                                {"plan", Json::parse(plan_json(inputs.plan))},
                                {"assumed", Json::parse(assumed_json(report.result.assumed))},
                                {"fit", Json::parse(serving_fit_json(report.result))},
                                {"measured", report.measured ? Json::parse(measured_json(*report.measured)) : Json()}});
}

namespace {

std::string text_of_tokens(const std::vector<std::int32_t>& tokens) {
  std::string text;
  for (const std::int32_t token : tokens) text += static_cast<char>(token);
  return text;
}

Json requests_of(const GenerationReport& report) {
  Json requests = Json::array();
  for (std::size_t i = 0; i < report.outputs.size(); ++i) {
    Json request = {{"prompt", report.prompts[i]}, {"output", report.outputs[i]}};
    if (report.are_bytes) request["text"] = text_of_tokens(report.outputs[i]);
    requests.push_back(std::move(request));
  }
  return requests;
}

Json predicted_of(const GenerationReport& report) {
  if (!report.predicted) return nullptr;
  const model::ServingResult& result = *report.predicted;
  return FIELDS(result, tpot_s, decode_step_s, prefill_tokens_per_s_per_gpu);
}

}  // namespace

std::string generation_json(const GenerationReport& report, const model::Plan& plan) {
  const bool decoded = report.tpot_s > 0;
  const auto gpus = static_cast<double>(report.gpus);
  const Json rate = decoded ? Json(report.requests() / report.tpot_s) : Json(nullptr);
  const Json rate_per_gpu = decoded ? Json(report.requests() / report.tpot_s / gpus) : Json(nullptr);
  const Json tpot = decoded ? Json(report.tpot_s) : Json(nullptr);
  const Json serving = {{"measured", true},
                        {"concurrency", report.requests()},
                        {"batch_per_gpu", report.requests() / gpus},
                        {"tpot_s", tpot},
                        {"decode_step_s", tpot},
                        {"output_tokens_per_s", rate},
                        {"output_tokens_per_s_per_gpu", rate_per_gpu},
                        {"prefill_s", report.prefill_s},
                        {"prefill_tokens_per_s_per_gpu", report.prefill_tokens_per_s_per_gpu()},
                        {"predicted", predicted_of(report)}};
  const Json generation = joined<Json>(
      {FIELDS(report, clock, date, trained_steps, temperature, seed, decode_s), {{"requests", requests_of(report)}}});
  return document("run-generate",
                  Json{{"serving", serving}, {"generation", generation}, {"plan", Json::parse(plan_json(plan))}});
}

}  // namespace plumbline::reports
