#include <nlohmann/json.hpp>

#include "reports/json/document.h"
#include "reports/json/json.h"
#include "reports/quantities.h"
#include "reports/text/plan/plan_report.h"

namespace plumbline::reports {
namespace {

using Json = nlohmann::ordered_json;

Json deployment_of(const sim::RankedDeployment& row) {
  return {{"value", row.value},
          {"within_limits", row.within},
          {"deployment", sim::deployment_words(row.plan)},
          {"serving", Json::parse(serving_quantities_json(row.result))},
          {"plan", Json::parse(plan_json(row.plan))},
          {"fit", Json::parse(serving_fit_json(row.result))}};
}

Json option_of(const sim::DeploymentOption& option) {
  return {{"cluster", option.on.cluster},
          {"gpus", option.on.gpus},
          {"profile", text_or_null<Json>(option.on.inputs.profile.name())},
          {"no_plan_because", option.search.best.empty() ? Json(why_none(option)) : Json(nullptr)},
          {"usd_per_gpu_hour", json_of<Json>(option.goal.usd_per_gpu_hour)},
          {"notes", option.on.notes},
          {"search", joined<Json>({FIELDS(option.search, space, evaluated, complete),
                                   {{"removed", LISTED(option.search.removed, rule, plans)}}})},
          {"plans", list_of<Json>(option.search.best, deployment_of)},
          {"frontier", list_of<Json>(option.search.frontier, [&](const sim::DeploymentPoint& one) {
             return joined<Json>({FIELDS(one.point, concurrency, tpot_s, ttft_unloaded_s, output_tokens_per_s_per_gpu,
                                         usd_per_million_output_tokens, within_limits, ttft_s),
                                  {{"deployment", sim::deployment_words(one.plan)}}});
           })}};
}

}  // namespace

std::string deployment_json(const sim::DeploymentAnswer& answer) {
  Json sites = Json::array();
  for (std::size_t i = 0; i < answer.order.size(); ++i) {
    sites.push_back(option_of(answer.options[answer.order[i]]));
    sites.back()["rank"] = i + 1;
    sites.back()["probability_best"] = answer.best_with.empty() ? Json(nullptr) : Json(answer.best_with[i]);
  }
  for (const sim::DeploymentOption& option : answer.options)
    if (option.search.best.empty()) sites.push_back(option_of(option));
  const bool found = !answer.order.empty();
  return document<Json>("plan-deployments",
                        {{"question",
                          {{"subject", answer.name},
                           {"objective", to_string(answer.objective)},
                           {"budget_usd_per_hour", json_of<Json>(answer.most_usd_per_hour)},
                           {"overrides", answer.overrides},
                           {"confidence", answer.confidence}}},
                         {"complete", answer.complete},
                         {"limits_met", found && answer.best(0).within},
                         {"what_would", sim::what_would_do(answer)},
                         {"sites", sites},
                         {"plan", found ? Json::parse(plan_json(answer.best(0).plan)) : Json(nullptr)}});
}

std::string deployment_csv(const sim::DeploymentAnswer& answer) {
  Json rows = Json::array();
  const auto add = [&rows](const Json& site, const Json& rank) {
    Json head = Json::object();
    for (const char* key : {"cluster", "gpus", "profile", "usd_per_gpu_hour", "no_plan_because"}) head[key] = site[key];
    head["cluster_rank"] = rank;
    if (site["plans"].empty()) rows.push_back(head);
    for (std::size_t place = 0; place < site["plans"].size(); ++place) {
      Json& row = rows.emplace_back(head);
      row["plan_rank"] = place + 1;
      row.update(site["plans"][place]);
      row["plan"] = searched_keys(row["plan"]);
    }
  };
  for (std::size_t i = 0; i < answer.order.size(); ++i) add(option_of(answer.options[answer.order[i]]), i + 1);
  for (const sim::DeploymentOption& option : answer.options)
    if (option.search.best.empty()) add(option_of(option), nullptr);
  return csv_of_rows(rows);
}

}  // namespace plumbline::reports
