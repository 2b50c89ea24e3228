#include <nlohmann/json.hpp>

#include "reports/json/detail/schemas.h"
#include "reports/json/detail/shared_fields.h"
#include "reports/json/json.h"
#include "reports/quantities.h"
#include "reports/text/plan/plan_report.h"

namespace plumbline::reports {
namespace {

using Json = nlohmann::ordered_json;

void deployment_point_fields(auto& to, const sim::DeploymentPoint& one) {
  const model::ServingPoint& point = one.point;
  to("concurrency", "requests in flight", point.concurrency);
  to("tpot_s", "seconds of an output token after the first", point.tpot_s);
  to("ttft_unloaded_s", "seconds to the first token of a request alone", point.ttft_unloaded_s);
  to("output_tokens_per_s_per_gpu", "output tokens a second and GPU", point.output_tokens_per_s_per_gpu);
  to("usd_per_million_output_tokens", "cost of a million output tokens", point.usd_per_million_output_tokens);
  to("within_limits", "whether all limits are met", point.within_limits);
  to("ttft_s", "seconds to the first token at that load", point.ttft_s);
  to("deployment", "place of the deployment in plans", sim::deployment_words(one.plan));
}

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

void option_fields(auto& to, const PlacedOption& placed) {
  static const sim::DeploymentOption none;
  const sim::DeploymentOption& option = placed.option == nullptr ? none : *placed.option;
  const bool empty = placed.option != nullptr && option.search.best.empty();
  to("cluster", "name of the cluster", option.on.cluster);
  to("gpus", "number of GPUs", option.on.gpus);
  to("profile", "profile with the constants", unless_empty(option.on.inputs.profile.name()));
  to("no_plan_because", "why there is no plan", empty ? std::optional(why_none(option)) : std::nullopt);
  to("usd_per_gpu_hour", "price of a GPU-hour", option.goal.usd_per_gpu_hour);
  to("notes", "what to know about it", option.on.notes);
  to("search", "how many were evaluated and removed", Object([&option](auto& part_to) {
       part_to("space", "plans of the space", option.search.space);
       part_to("evaluated", "how many were predicted", option.search.evaluated);
       part_to("complete", "false: it was interrupted", option.search.complete);
       part_to("removed", "what was cut without a prediction, by rule",
               List(option.search.removed, [](auto& removed_to, const sim::Removed& removed) {
                 removed_to("rule", "rule that removed them", removed.rule);
                 removed_to("plans", "how many were removed", removed.plans);
               }));
     }));
  to("plans", "plans, the best first", List(option.search.best, [](auto& row_to, const sim::RankedDeployment& row) {
       row_to("value", "of the objective", row.value);
       row_to("within_limits", "whether all limits are met", row.within);
       row_to("deployment", "its degrees and pools", sim::deployment_words(row.plan));
       row_to("serving", "", embedded<Json>("deployment", serving_quantities_json(row.result)));
       row_to("plan", "", embedded<Json>("plan", plan_json(row.plan)));
       row_to("fit", "", embedded<Json>("fit", serving_fit_json(row.result)));
     }));
  to("frontier", "deployments that no other beats in both speed and price",
     List(option.search.frontier,
          [](auto& point_to, const sim::DeploymentPoint& point) { deployment_point_fields(point_to, point); }));
  to.only_where(placed.rank.has_value(), "rank", "by the objective; missing where there is no deployment",
                placed.rank.value_or(0));
  to.only_where(placed.rank.has_value(), "probability_best",
                "how probable it is that its best deployment is the best of all; missing where there is none, null: "
                "nothing was drawn",
                placed.probability_best);
}

void deployments_fields(auto& to, const sim::DeploymentAnswer& answer) {
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
  to("sites", "clusters, each with its best plans",
     List(options, [](auto& site_to, const PlacedOption& option) { option_fields(site_to, option); }));
  to("plan", "the plan", embedded_where<Json>(found, "plan", plan_json(plan)));
}

}  // namespace

std::string deployment_json(const sim::DeploymentAnswer& answer) {
  return document("plan-deployments", object_of<Json>([&](auto& to) { deployments_fields(to, answer); }));
}

std::string deployments_schema() {
  return text_of_json(document_schema<Json>(
      "plan-deployments", "plumbline plan MODEL --objective throughput|latency|tokens-per-dollar --json",
      "The best deployments that serve a model.", [](auto& to) { deployments_fields(to, sim::DeploymentAnswer()); }));
}

std::string deployment_csv(const sim::DeploymentAnswer& answer) {
  Json rows = Json::array();
  for (const PlacedOption& option : placed_options(answer)) {
    const Json site = object_of<Json>([&option](auto& to) { option_fields(to, option); });
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
