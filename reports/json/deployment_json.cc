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
  to("concurrency", point.concurrency, "requests in flight");
  to("tpot_s", point.tpot_s, "seconds of an output token after the first");
  to("ttft_unloaded_s", point.ttft_unloaded_s, "seconds to the first token of a request alone");
  to("output_tokens_per_s_per_gpu", point.output_tokens_per_s_per_gpu, "output tokens a second and GPU");
  to("usd_per_million_output_tokens", point.usd_per_million_output_tokens, "cost of a million output tokens");
  to("within_limits", point.within_limits, "whether all limits are met");
  to("ttft_s", point.ttft_s, "seconds to the first token at that load");
  to("deployment", sim::deployment_words(one.plan), "place of the deployment in plans");
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
  to("cluster", option.on.cluster, "name of the cluster");
  to("gpus", option.on.gpus, "number of GPUs");
  to("profile", unless_empty(option.on.inputs.profile.name()), "profile with the constants");
  to("no_plan_because", empty ? std::optional(why_none(option)) : std::nullopt, "why there is no plan");
  to("usd_per_gpu_hour", option.goal.usd_per_gpu_hour, "price of a GPU-hour");
  to("notes", option.on.notes, "what to know about it");
  to("search", Object{[&option](auto& part_to) {
       part_to("space", option.search.space, "plans of the space");
       part_to("evaluated", option.search.evaluated, "how many were predicted");
       part_to("complete", option.search.complete, "false: it was interrupted");
       part_to("removed",
               List(option.search.removed,
                    [](auto& removed_to, const sim::Removed& removed) {
                      removed_to("rule", removed.rule, "rule that removed them");
                      removed_to("plans", removed.plans, "how many were removed");
                    }),
               "what was cut without a prediction, by rule");
     }},
     "how many were evaluated and removed");
  to("plans",
     List(option.search.best,
          [](auto& row_to, const sim::RankedDeployment& row) {
            row_to("value", row.value, "of the objective");
            row_to("within_limits", row.within, "whether all limits are met");
            row_to("deployment", sim::deployment_words(row.plan), "its degrees and pools");
            row_to("serving", embedded<Json>("deployment", serving_quantities_json(row.result)), "");
            row_to("plan", embedded<Json>("plan", plan_json(row.plan)), "");
          }),
     "plans, the best first");
  to("frontier",
     List(option.search.frontier,
          [](auto& point_to, const sim::DeploymentPoint& point) { deployment_point_fields(point_to, point); }),
     "deployments that no other beats in both speed and price");
  to.only_where(placed.rank.has_value(), "rank", placed.rank.value_or(0),
                "by the objective; missing where there is no deployment");
  to.only_where(placed.rank.has_value(), "probability_best", placed.probability_best,
                "how probable it is that its best deployment is the best of all; missing where there is none, null: "
                "nothing was drawn");
}

void deployments_fields(auto& to, const sim::DeploymentAnswer& answer) {
  const bool found = !answer.order.empty();
  const std::vector<PlacedOption> options = placed_options(answer);
  const model::Plan plan = found ? answer.best(0).plan : model::Plan();
  to("question", Object{[&answer](auto& part_to) {
       part_to("subject", answer.name, "plan or model that is asked about");
       part_to("objective", std::string(to_string(answer.objective)), "what is made best");
       part_to("budget_usd_per_hour", answer.most_usd_per_hour, "largest cost of an hour of the deployment");
       part_to("overrides", answer.overrides, "keys of the plan that were set");
       part_to("confidence", answer.confidence, "share of cases in which limits of times hold");
     }},
     "what was asked");
  to("complete", answer.complete, "whether every deployment was predicted or removed by proof");
  to("limits_met", found && answer.best(0).within, "whether any answer meets all limits");
  to("what_would", sim::what_would_do(answer), "what would meet the limits");
  to("sites", List(options, [](auto& site_to, const PlacedOption& option) { option_fields(site_to, option); }),
     "clusters, each with its best plans");
  Stated<Json> taken = embedded<Json>("plan", plan_json(plan), true);
  if (!found) taken.value = nullptr;
  to("plan", taken, "the plan");
}

}  // namespace

std::string deployment_json(const sim::DeploymentAnswer& answer) {
  return document("plan-deployments", written<Json>(Object{[&](auto& to) { deployments_fields(to, answer); }}));
}

std::string deployments_schema() {
  return text_of_json(document_schema<Json>(
      "plan-deployments", "plumbline plan MODEL --objective throughput|latency|tokens-per-dollar --json",
      "The best deployments that serve a model.", [](auto& to) { deployments_fields(to, sim::DeploymentAnswer()); }));
}

std::string deployment_csv(const sim::DeploymentAnswer& answer) {
  Json rows = Json::array();
  for (const PlacedOption& option : placed_options(answer)) {
    const Json site = written<Json>(Object{[&option](auto& to) { option_fields(to, option); }});
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
