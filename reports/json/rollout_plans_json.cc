#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "reports/json/detail/schemas.h"
#include "reports/json/detail/step_parts.h"
#include "reports/text/plan/plan_report.h"

namespace plumbline::reports {
namespace {

using Json = nlohmann::ordered_json;

// The splits of a cluster, and its place among those with a plan.
struct DividedCluster {
  const sim::ClusterOption* option = nullptr;
  const sim::Limits* limits = nullptr;
  std::optional<std::size_t> rank;
  std::vector<const sim::RolloutSplit*> found, refused;
};

// Returns the clusters by their best splits, those without a plan last.
std::vector<DividedCluster> divided_clusters(const sim::RolloutAnswer& answer) {
  std::vector<DividedCluster> clusters;
  const auto cluster_of = [&](const sim::ClusterOption& option) -> DividedCluster& {
    const auto known = std::ranges::find(clusters, &option, &DividedCluster::option);
    return known != clusters.end() ? *known
                                   : clusters.emplace_back(DividedCluster{&option, &answer.limits, {}, {}, {}});
  };
  for (const sim::RolloutSplit& split : answer.splits) {
    DividedCluster& cluster = cluster_of(answer.option_of(split));
    if (split.best && cluster.found.empty()) cluster.rank = clusters.size();
    (split.best ? cluster.found : cluster.refused).push_back(&split);
  }
  for (const sim::ClusterOption& option : answer.options) cluster_of(option);
  return clusters;
}

void split_keys(auto& to, const sim::RolloutSplit& split) {
  to("placement", "colocated, split or asynchronous", split.placement);
  to("training_gpus", "GPUs that train", split.training_gpus);
  to("engine_gpus", "GPUs that generate; colocated: the same", split.engine_gpus);
}

}  // namespace

void fields(auto& to, const DividedCluster& cluster) {
  static const sim::ClusterOption no_option;
  static const sim::RolloutSplit no_split{.best = sim::RankedPlan()};
  const sim::ClusterOption& option = cluster.option == nullptr ? no_option : *cluster.option;
  to("cluster", "name of the cluster", option.cluster);
  to("profile", "profile with the constants", unless_empty(option.inputs.profile.name()));
  to("no_plan_because", "why it cannot be used at all",
     option.error ? std::optional(option.error->message) : std::nullopt);
  to("notes", "what to know about it", option.notes);
  to("plans", "splits of the GPUs, the best first", List(cluster.found, [&](auto& row_to, const sim::RolloutSplit* of) {
       const sim::RolloutSplit& split = of == nullptr ? no_split : *of;
       split_keys(row_to, split);
       row_to("within_limits", "whether the run meets all limits",
              cluster.limits != nullptr && sim::within(split.best->cost, *cluster.limits));
       row_to("update_s", "seconds of an update of the policy", split.best->result.step.time_s);
       row_to("rollout", "the step", Object([&split](auto& part_to) {
                rollout_fields(part_to, split.best->result.rollout.value_or(model::RolloutResult()));
              }));
       row_to("plan", "", plan_part<Json>(split.best->plan));
     }));
  to("refused", "splits without a plan", List(cluster.refused, [](auto& row_to, const sim::RolloutSplit* of) {
       const sim::RolloutSplit& split = of == nullptr ? no_split : *of;
       split_keys(row_to, split);
       row_to("reason", "why there is none", split.refusal);
     }));
  to.only_where(cluster.rank.has_value(), "rank", "by the objective; missing where there is no plan",
                cluster.rank.value_or(0));
}

void fields(auto& to, const sim::RolloutAnswer& answer) {
  to("question", "what was asked", Object([&answer](auto& part_to) {
       part_to("subject", "plan that is asked about", answer.name);
       part_to("objective", "what is made best", std::string(to_string(answer.objective)));
       part_to("deadline_days", "longest training in days", answer.limits.days);
       part_to("budget_usd", "largest cost in US dollars", answer.limits.usd);
       part_to("overrides", "keys of the plan that were set", answer.overrides);
     }));
  to("complete", "whether every split was decided", answer.complete);
  to("limits_met", "whether any answer meets all limits",
     answer.found() && sim::within(answer.splits.front().best->cost, answer.limits));
  to("sites", "clusters, each with its splits", divided_clusters(answer));
  to("plan", "the best plan",
     plan_where<Json>(answer.found(), answer.found() ? answer.splits.front().best->plan : model::Plan()));
}

std::string rollout_plans_json(const sim::RolloutAnswer& answer) {
  return document("plan-rollouts", written<Json>(answer));
}

std::string rollout_plans_schema() {
  return document_schema<Json>("plan-rollouts", "plumbline plan PLAN --json, of a plan with [rollout]",
                               "How the GPUs of reinforcement learning are divided between generation and training.",
                               [](auto& to) { fields(to, sim::RolloutAnswer()); });
}

std::string rollout_plans_csv(const sim::RolloutAnswer& answer) {
  Json rows = Json::array();
  for (const DividedCluster& cluster : divided_clusters(answer)) {
    const Json site = written<Json>(cluster);
    const Json head = {{"cluster", site["cluster"]}, {"no_plan_because", site["no_plan_because"]}};
    for (const char* list : {"plans", "refused"})
      for (const Json& split : site[list]) {
        Json& row = rows.emplace_back(head);
        row.update(split);
        if (split.contains("reason")) row["no_plan_because"] = split["reason"];
        row.erase("reason");
        if (split.contains("plan")) row["plan"] = searched_keys(split["plan"]);
      }
    if (site["plans"].empty() && site["refused"].empty()) rows.push_back(head);
  }
  return csv_of_rows(rows);
}

}  // namespace plumbline::reports
