#include <nlohmann/json.hpp>

#include "reports/generation_report.h"
#include "reports/json/document.h"
#include "reports/json/json.h"

namespace plumbline::reports {
namespace {

using Json = nlohmann::ordered_json;

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
