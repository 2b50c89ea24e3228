#include <nlohmann/json.hpp>

#include "reports/json/document.h"
#include "reports/json/json.h"
#include "reports/quantities.h"
#include "reports/text/serving/serving_report.h"

namespace plumbline::reports {
namespace {

using Json = nlohmann::ordered_json;

Json number_of(double value) { return value; }
Json number_of(std::int64_t value) { return value; }
Json number_of(const std::optional<double>& value) { return value_or_null<Json>(value); }

Json quantiles_or_null(const std::optional<model::Quantiles>& quantiles) {
  if (!quantiles) return {{"p10", nullptr}, {"p50", nullptr}, {"p90", nullptr}};
  return {{"p10", quantiles->p10}, {"p50", quantiles->p50}, {"p90", quantiles->p90}};
}

Json interval_of_serving(const std::optional<model::ServingInterval>& interval) {
  const model::ServingInterval known = interval.value_or(model::ServingInterval());
  Json json = Json::object();
  visit_serving_quantiles(
      known, [&](const char* key, const auto& quantiles, const char*) { json[key] = quantiles_or_null(quantiles); });
  Json& parts = json["parts"] = Json::array();
  for (const model::IntervalPart& part : known.parts) parts.push_back({{"source", part.source}, {"share", part.share}});
  return json;
}

Json pool_of(const model::ServingPool& pool) {
  Json parts = Json::array();
  for (const model::ServingPart& part : pool.parts)
    parts.push_back({{"part", part.name},
                     {"seconds", part.seconds},
                     {"hidden_s", part.hidden_s},
                     {"bound_by", model::to_string(part.bound)}});
  return {{"pool", pool.name},
          {"gpus", pool.gpus},
          {"instances", pool.instances},
          {"gpus_per_instance", pool.gpus_per_instance},
          {"tensor", pool.tensor},
          {"pipeline", pool.pipeline},
          {"expert", pool.expert},
          {"attention_data", pool.attention_data},
          {"redundant_experts", pool.redundant_experts},
          {"step_s", pool.step_s},
          {"tokens_per_step", pool.tokens_per_step},
          {"batch_per_gpu", pool.batch_per_gpu},
          {"kv_capacity_tokens", pool.kv_capacity_tokens},
          {"bound_by", model::to_string(pool.bound_by)},
          {"parts", parts}};
}

// The pools take the place of the stages of a training. A serving GPU holds no gradients and no optimizer states.
Json memory_of_serving(const std::vector<model::ServingPool>& pools) {
  Json stages = Json::array();
  double peak = 0, capacity = 0;
  for (const model::ServingPool& pool : pools) {
    const double bytes = pool.weights_bytes + pool.activations_bytes + pool.reserve_bytes + pool.kv_bytes;
    if (bytes > peak) peak = bytes, capacity = pool.capacity_bytes;
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
  return {{"peak_bytes", peak}, {"capacity_bytes", capacity}, {"fits", peak <= capacity}, {"stages", stages}};
}

Json serving_of(const model::ServingResult& result) {
  Json json = Json::object();
  visit_serving(result, [&](const char* key, const auto& value, const char*) { json[key] = number_of(value); });
  json["bound_by"] = model::to_string(result.bound_by);
  json["interval"] = interval_of_serving(result.interval);
  Json& pools = json["pools"] = Json::array();
  for (const model::ServingPool& pool : result.pools) pools.push_back(pool_of(pool));
  Json& frontier = json["frontier"] = Json::array();
  for (const model::ServingPoint& point : result.frontier)
    frontier.push_back({{"concurrency", point.concurrency},
                        {"batch_per_gpu", point.batch_per_gpu},
                        {"tpot_s", point.tpot_s},
                        {"ttft_unloaded_s", point.ttft_unloaded_s},
                        {"output_tokens_per_s_per_gpu", point.output_tokens_per_s_per_gpu},
                        {"usd_per_million_output_tokens", number_of(point.usd_per_million_output_tokens)},
                        {"within_limits", point.within_limits},
                        {"dominated", point.dominated}});
  json["notes"] = result.notes;
  return json;
}

}  // namespace

std::string serving_json(const ServingReport& report) {
  const sim::Inputs& inputs = report.inputs;
  Json provenance = Json::array();
  for (const model::Parameter& constant : report.result.constants)
    provenance.push_back({{"parameter", constant.name},
                          {"value", constant.value},
                          {"unit", constant.unit},
                          {"kind", model::to_string(constant.kind)},
                          {"source", constant.source},
                          {"share_of_step", nullptr},
                          {"relative_uncertainty", number_of(constant.relative_uncertainty)},
                          {"stack", text_or_null<Json>(constant.stack)}});
  return document("serve", Json{{"serving", serving_of(report.result)},
                                {"memory", memory_of_serving(report.result.pools)},
                                {"provenance", provenance},
                                {"basis",
                                 {{"profile", inputs.profile.name()},
                                  {"stack", text_or_null<Json>(inputs.profile.stack())},
                                  {"device", inputs.cluster.device.name}}},
                                {"plan", Json::parse(plan_json(inputs.plan))},
                                {"assumed", Json::parse(assumed_json(report.result.assumed))}});
}

}  // namespace plumbline::reports
