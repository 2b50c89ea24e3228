#include <nlohmann/json.hpp>

#include "reports/json/detail/schemas.h"
#include "reports/json/detail/serving_parts.h"
#include "reports/text/plan/plan_report.h"

namespace plumbline::reports {

void fields(auto& to, const sim::DeploymentPoint& one) {
  point_fields(to, one.point, false);
  to("deployment", "place of the deployment in plans", sim::deployment_words(one.plan));
}

namespace {

using Json = nlohmann::ordered_json;

// An option and its rank, which one without a deployment has not.
struct PlacedOption {
  const sim::DeploymentOption* option = nullptr;
  std::optional<std::size_t> rank;
  std::optional<double> probability_best;
};

std::vector<PlacedOption> placed_options(const sim::DeploymentAnswer& answer) {
  std::vector<PlacedOption> placed;
  for (std::size_t i = 0; i < answer.order.size(); ++i)
    placed.push_back({&answer.options[answer.order[i]], i + 1,
                      answer.best_with.empty() ? std::nullopt : std::optional(answer.best_with[i])});
  for (const sim::DeploymentOption& option : answer.options)
    if (option.search.best.empty()) placed.push_back({&option, std::nullopt, std::nullopt});
  return placed;
}

}  // namespace

void fields(auto& to, const PlacedOption& placed) {
  static const sim::DeploymentOption none;
  const sim::DeploymentOption& option = placed.option == nullptr ? none : *placed.option;
  const bool empty = placed.option != nullptr && option.search.best.empty();
  to("cluster", "name of the cluster", option.on.cluster);
  to("gpus", "number of GPUs", option.on.gpus);
  to("profile", "profile with the constants", unless_empty(option.on.inputs.profile.name()));
  to("no_plan_because", "why there is no plan", empty ? std::optional(why_none(option)) : std::nullopt);
  to("usd_per_gpu_hour", "price of a GPU-hour", option.goal.usd_per_gpu_hour);
  to("notes", "what to know about it", option.on.notes);
  to("search", "how many were evaluated and removed", search_of(option.search, false));
  to("plans", "plans, the best first", List(option.search.best, [](auto& row_to, const sim::RankedDeployment& row) {
       row_to("value", "of the objective", row.value);
       row_to("within_limits", "whether all limits are met", row.within);
       row_to("deployment", "its degrees and pools", sim::deployment_words(row.plan));
       row_to("serving", "", row.result);
       row_to("plan", "", plan_part<Json>(row.plan));
       row_to("fit", "", fit_in_memory(row.result));
     }));
  to("frontier", "deployments that no other beats in both speed and price", option.search.frontier);
  to.only_where(placed.rank.has_value(), "rank", "by the objective; missing where there is no deployment",
                placed.rank.value_or(0));
  to.only_where(placed.rank.has_value(), "probability_best",
                "how probable it is that its best deployment is the best of all; missing where there is none, null: "
                "nothing was drawn",
                placed.probability_best);
}

void fields(auto& to, const sim::DeploymentAnswer& answer) {
  const bool found = !answer.order.empty();
  const std::vector<PlacedOption> options = placed_options(answer);
  const model::Plan plan = found ? answer.best(0).plan : model::Plan();
  to("question", "what was asked", Object([&answer](auto& part_to) {
       part_to("subject", "plan or model that is asked about", answer.name);
       part_to("objective", "what is made best", std::string(to_string(answer.objective)));
       part_to("budget_usd_per_hour", "largest cost of an hour of the deployment", answer.most_usd_per_hour);
       part_to("overrides", "keys of the plan that were set", answer.overrides);
       part_to("confidence", "share of cases in which limits of times hold", answer.confidence);
     }));
  to("complete", "whether every deployment was predicted or removed by proof", answer.complete);
  to("limits_met", "whether any answer meets all limits", found && answer.best(0).within);
  to("what_would", "what would meet the limits", sim::what_would_do(answer));
  to("sites", "clusters, each with its best plans", options);
  to("plan", "the plan", plan_where<Json>(found, plan));
}

std::string deployment_json(const sim::DeploymentAnswer& answer) {
  return document("plan-deployments", written<Json>(answer));
}

std::string deployments_schema() {
  return document_schema<Json>(
      "plan-deployments", "plumbline plan MODEL --objective throughput|latency|tokens-per-dollar --json",
      "The best deployments that serve a model.", [](auto& to) { fields(to, sim::DeploymentAnswer()); });
}

std::string deployment_csv(const sim::DeploymentAnswer& answer) {
  Json rows = Json::array();
  for (const PlacedOption& option : placed_options(answer)) {
    const Json site = written<Json>(option);
    Json head = Json::object();
    for (const char* key : {"cluster", "gpus", "profile", "usd_per_gpu_hour", "no_plan_because"}) head[key] = site[key];
    head["cluster_rank"] = written<Json>(option.rank);
    if (site["plans"].empty()) rows.push_back(head);
    for (std::size_t place = 0; place < site["plans"].size(); ++place) {
      Json& row = rows.emplace_back(head);
      row["plan_rank"] = place + 1;
      row.update(site["plans"][place]);
      row["plan"] = searched_keys(row["plan"]);
    }
  }
  return csv_of_rows(rows);
}

}  // namespace plumbline::reports
