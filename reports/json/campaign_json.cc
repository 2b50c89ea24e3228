#include <nlohmann/json.hpp>

#include "model/base/text.h"
#include "reports/json/detail/campaign_parts.h"
#include "reports/json/document.h"
#include "reports/json/json.h"
#include "reports/text/campaign/campaign_report.h"

namespace plumbline::reports {
namespace {

using Json = nlohmann::ordered_json;

Json points_of_campaign(const std::vector<sim::CampaignPoint>& points, const char* key) {
  Json json = Json::array();
  for (const sim::CampaignPoint& point : points) {
    Json& object = json.emplace_back(Json::object());
    if (!point.name.empty()) object["name"] = point.name;
    object.update({{key, point.value}, {"days", quantile_object<Json>(point.days)}, {"goodput", point.goodput}});
  }
  return json;
}

Json failures_of_campaign(const sim::CampaignAnswer& answer) {
  Json json = Json::array();
  for (std::size_t mode = 0; mode < answer.input.failures.size(); ++mode) {
    const sim::FailureMode& failure = answer.input.failures[mode];
    const auto& means = answer.result.interruptions_of_mode;
    json.push_back(joined<Json>({FIELDS(failure, name, per_gpu_hour, detect_s),
                                 {{"repair_s", finite_or_null<Json>(failure.repair_s)},
                                  {"slows", failure.slows},
                                  {"mean_times", mode < means.size() ? Json(means[mode]) : Json(nullptr)}}}));
  }
  return json;
}

Json checkpoint_of_campaign(const CampaignReport& report) {
  const sim::CheckpointPolicy& policy = report.answer.input.checkpoint;
  const sim::CampaignResult& result = report.answer.result;
  return joined<Json>({{{"interval_s", finite_or_null<Json>(result.checkpoint_interval_s)},
                        {"young_s", finite_or_null<Json>(result.young_s)},
                        {"daly_s", finite_or_null<Json>(result.daly_s)}},
                       FIELDS(policy, stall_s, write_s, load_s),
                       {{"intervals", points_of_campaign(report.answer.intervals, "interval_s")}}});
}

Json run_of_campaign(const CampaignReport& report) {
  if (!report.answer.run) return nullptr;
  model::StepResult step = report.step;
  step.run = report.answer.run;
  return Json::parse(to_json(step, report.plan))["run"];
}

Json body_of_campaign(const CampaignReport& report) {
  const sim::CampaignAnswer& answer = report.answer;
  const sim::CampaignResult& result = answer.result;
  const double hours = 24 * static_cast<double>(answer.input.gpus);
  const auto usd = answer.usd();
  return {{"days", quantile_object<Json>(answer.days)},
          {"gpu_hours", quantile_object<Json>(answer.days, hours)},
          {"cost_usd", usd ? quantile_object<Json>(*usd) : Json(nullptr)},
          {"goodput", quantile_object<Json>(result.goodput)},
          {"mean_goodput", result.mean_goodput},
          {"interruptions", quantile_object<Json>(result.interruptions)},
          {"finished", result.finished},
          {"never", text_or_null<Json>(result.never)},
          {"hours_between_failures", finite_or_null<Json>(result.hours_between_failures)},
          {"mean_time_s", time_of_campaign<Json>(result.mean)},
          {"reliability", report.reliability.name},
          {"failures", failures_of_campaign(answer)},
          {"checkpoint", checkpoint_of_campaign(report)},
          {"spare_nodes", answer.input.spare_nodes},
          {"spares", points_of_campaign(answer.spares, "spare_nodes")},
          {"finish_by", finish_object<Json>(answer.finish)},
          {"start", report.start ? Json(model::date_text(*report.start)) : Json(nullptr)},
          {"phases", LISTED(answer.input.phases, name, tokens, tokens_per_step, step_s)},
          {"seeds", answer.input.seeds},
          {"seed", answer.input.seed},
          {"days_of_seed", list_of<Json>(result.days_of_seed, finite_or_null<Json>)}};
}

}  // namespace

std::string campaign_json(const CampaignReport& report) {
  return document(
      "campaign",
      Json{{"campaign", body_of_campaign(report)},
           {"step", Json::parse(step_json(report.step.step))},
           {"interval", Json::parse(interval_json(report.step.interval))},
           {"middle", Json::parse(middle_json(report.step))},
           {"run", run_of_campaign(report)},
           {"reliability", list_of<Json>(report.reliability.parameters,
                                         [](const model::Parameter& parameter) {
                                           return joined<Json>({constant_json<Json>(parameter),
                                                                FIELDS(parameter, relative_uncertainty, low, high)});
                                         })},
           {"plan", Json::parse(plan_json(report.plan))},
           {"fit", Json::parse(fit_json(report.step.memory))}});
}

}  // namespace plumbline::reports
