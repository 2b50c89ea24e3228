#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "reports/json/detail/answer_parts.h"
#include "reports/text/plan/plan_report.h"
#include "sim/search/break_even.h"

namespace plumbline::reports {
namespace {

using Json = nlohmann::ordered_json;

// `training`: the cost of a plan, or its campaign.
std::optional<double> probability_of(const auto& training, const sim::Limits& limits) {
  return limits.any() ? std::optional<double>(sim::probability_within(training, limits)) : std::nullopt;
}

// A plan of an answer, and why it is behind the one above.
void row_fields(auto& to, const sim::PlanAnswer& answer, const sim::RankedPlan& row, const std::string& reason,
                std::optional<double> best) {
  const auto& run = row.result.run;
  const model::RunCost cost = run.value_or(model::RunCost());
  to("step", "", row.result.step);
  to("days", "days of the training", where(run.has_value(), cost.days));
  to("gpu_hours", "hours of one GPU", where(run.has_value(), cost.gpu_hours));
  to("cost_usd", "cost in US dollars", cost.cost_usd);
  to("cost_usd_low", "lower end of the cost", run ? run->cost_low_usd(run->gpu_hours) : std::nullopt);
  to("cost_usd_high", "upper end of the cost", run ? run->cost_high_usd(run->gpu_hours) : std::nullopt);
  to("memory", "memory of the ranks", Object([&row](auto& part_to) {
       part_to("peak_bytes", "bytes of the fullest rank", row.result.memory.peak_bytes);
       part_to("capacity_bytes", "bytes of a GPU", row.result.memory.capacity_bytes);
     }));
  to("within_limits", "whether the middle meets all limits", sim::within(row.cost, answer.limits));
  to("twins", "other plans with the same work, time and memory", row.twins);
  to("middle", "", middle_of(row.result));
  to("interval", "", uncertainty(row.result.interval));
  to("reason", "why not, where it cannot be", unless_empty(reason));
  to("plan", "", plan_part<Json>(row.plan));
  to("fit", "", fit_of_memory(row.result.memory));
  to("probability_best", "how probable it is that it is the best; null: nothing was drawn, or there is no other", best);
  to("probability_deadline", "probability to meet the deadline, of the cases in which it fits in memory",
     probability_of(row.cost, {.days = answer.limits.days}));
  to("probability_budget", "probability to stay within the budget, of the cases in which it fits in memory",
     probability_of(row.cost, {.usd = answer.limits.usd}));
}

auto families_of(const model::StepResult& result) {
  return Object([&result](auto& to) {
    static const std::map<std::string, const char*, std::less<>> meanings = {
        {"GEMMs", "constants of GEMMs"},
        {"attention", "constants of attention"},
        {"memory-bound_kernels", "constants of kernels that memory limits"},
        {"launches_and_short_kernels", "constants of launches and of kernels that they limit"},
        {"routers", "constants of routing kernels"},
        {"expert_all-to-all", "constants of dispatch and combine"},
        {"collectives_and_messages", "constants of collectives and point-to-point messages"},
        {"operators_measured_as_such", "constants of operators that were measured by themselves"},
        {"other_constants", "constants of no other family"}};
    for (const FamilyShare& family : family_shares(result)) {
      const auto meaning = meanings.find(key_of_name(family.name));
      to(key_of_name(family.name), meaning == meanings.end() ? "" : meaning->second, Object([&family](auto& share_to) {
           share_to("share_of_step", "share of the step that the constants account for", family.share);
           share_to("measured_share_of_step", "share of the step that constants measured on this GPU account for",
                    family.measured);
         }));
    }
  });
}

auto offer_of(const sim::ClusterOption& option) {
  return Object([&option](auto& to) {
    const auto price = sim::price_of(option);
    const auto& value = price.value;
    to("ownership", "whether the GPUs are rented or bought", option.inputs.plan.run.ownership);
    to("usd_per_gpu_hour", "price of a GPU-hour", value ? std::optional(value->value) : std::nullopt);
    to("low", "lower end", value ? std::optional(value->low) : std::nullopt);
    to("high", "upper end", value ? std::optional(value->high) : std::nullopt);
    to("kind", "what kind of thing it is", value ? std::optional(PriceKind{Word{value->kind, {}}}) : std::nullopt);
    to("source", "where it is from", value ? std::optional(value->source) : std::nullopt);
    to("missing", "what the price does not contain", unless_empty(price.missing));
  });
}

void training_fields(auto& to, const sim::CampaignAnswer& training, const sim::Limits& limits,
                     const std::string& rates) {
  const sim::CampaignResult& campaign = training.result;
  to("days", "over the interval of the step and failures; null: it never finishes",
     where(training.run.has_value(), training.days));
  to("cost_usd", "the same in USD", training.usd());
  to("probability_deadline", "with failures, if it fits in memory", probability_of(training, {.days = limits.days}));
  to("probability_budget", "with failures, if it fits in memory", probability_of(training, {.usd = limits.usd}));
  to("goodput", "at the predicted step", campaign.goodput);
  to("mean_goodput", "mean over all simulated campaigns", campaign.mean_goodput);
  to("interruptions", "", campaign.interruptions);
  to("finished", "share of the campaigns that finish", campaign.finished);
  to("never", "why others do not", unless_empty(campaign.never));
  to("hours_between_failures", "mean hours from one failure to the next", if_finite(campaign.hours_between_failures));
  to("mean_time_s", "", campaign.mean);
  to("checkpoint_interval_s", "seconds from one checkpoint to the next", if_finite(campaign.checkpoint_interval_s));
  to("spare_nodes", "nodes kept as spares", training.input.spare_nodes);
  to("reliability", "name of the rates of failures", rates);
  to("seeds", "campaigns simulated", training.input.seeds);
}

// An option and its rank in the order, which one without a plan has not.
struct PlacedCluster {
  const sim::ClusterOption* option = nullptr;
  std::optional<std::size_t> place;
};

std::vector<PlacedCluster> placed_clusters(const sim::PlanAnswer& answer) {
  std::vector<PlacedCluster> placed;
  for (std::size_t i = 0; i < answer.order.size(); ++i) placed.push_back({&answer.options[answer.order[i]], i});
  for (const std::size_t i : answer.empty) placed.push_back({&answer.options[i], std::nullopt});
  return placed;
}

void cluster_fields(auto& to, const sim::PlanAnswer& answer, const PlacedCluster& placed) {
  static const sim::ClusterOption no_option;
  static const sim::RankedPlan no_plan;
  const sim::ClusterOption& option = placed.option == nullptr ? no_option : *placed.option;
  const bool ranked = placed.place.has_value();
  const std::size_t place = placed.place.value_or(0);
  const sim::RankedPlan& first = ranked ? option.plans.front() : no_plan;
  const auto best_of = [](const std::vector<double>& all, std::size_t i) {
    return all.empty() ? std::nullopt : std::optional(all[i]);
  };
  const auto range = ranked ? objective_interval(first, answer.objective) : std::nullopt;
  const auto probability = [&](const sim::Limits& limit) {
    return ranked && limit.any() ? answer.probability_within(place, limit) : std::nullopt;
  };
  std::size_t at = 0;
  to("cluster", "name of the cluster", option.cluster);
  to("gpus", "number of GPUs", option.gpus);
  to("profile", "profile with the constants", unless_empty(option.inputs.profile.name()));
  to("stack", "software stack", unless_empty(option.inputs.profile.stack()));
  to("rank", "by the objective, with failures where they are predicted; null: no plan", where(ranked, place + 1));
  to("dominated", "whether another is both faster and cheaper", ranked ? answer.dominated[place] : std::nullopt);
  to("reason", "why it is behind the one above",
     ranked && place > 0
         ? std::optional(reason_between(answer.options[answer.order[place - 1]], option, answer.objective))
         : std::nullopt);
  to("no_plan_because", "why there is no plan",
     !ranked && placed.option != nullptr ? std::optional(why_empty(option)) : std::nullopt);
  to("measured_share", "share of the step on measured, fitted or published constants",
     ranked ? std::optional(measured_share(first.result)) : std::nullopt);
  const auto measured = where(ranked, &first.result);
  to("measured_by_family", "by family of constants; 0: the step uses none",
     Maybe(measured, [](auto& family_to, const model::StepResult* result) {
       static const model::StepResult no_result;
       families_of(result == nullptr ? no_result : *result).fields(family_to);
     }));
  to("interval", "of the objective: eight of ten cases", Maybe(range, [](auto& end_to, const model::Quantiles& ends) {
       end_to("low", "lower end", ends.p10);
       end_to("high", "upper end", ends.p90);
     }));
  to("price", "what a GPU-hour costs", offer_of(option));
  const auto campaign = ranked ? option.campaign : std::nullopt;
  to("campaign",
     "the training with its failures, by its first plan; null: without tokens or rates of failures, or where a phase "
     "cannot be predicted",
     Maybe(campaign, [&](auto& part_to, const sim::CampaignAnswer& training) {
       training_fields(part_to, training, answer.limits, option.rates);
     }));
  to("notes", "what to know about it", option.notes);
  to("search", "how many were evaluated and removed", search_of(option.search, true));
  to("plans", "plans, the best first", List(option.plans, [&](auto& row_to, const sim::RankedPlan& row) {
       const std::string reason =
           at == 0 || at >= option.plans.size() ? "" : reason_on_option(option.plans[at - 1], row);
       row_fields(row_to, answer, row, reason,
                  at < option.best_with.size() ? std::optional(option.best_with[at]) : std::nullopt);
       ++at;
     }));
  to("edge", "faster plans that fit with less than search.min_fit, the fastest first",
     List(option.edge,
          [&](auto& row_to, const sim::RankedPlan& row) { row_fields(row_to, answer, row, "", std::nullopt); }));
  to("finish_by", "with a deadline, the fewest GPUs of its first plan's degrees that end by then",
     option.campaign ? option.campaign->finish : std::nullopt);
  to("assumed", "what the plan of the recommended option leaves open of the software; null: another option",
     where(ranked && place == answer.recommended, first.result.assumed));
  to.only_where(ranked, "probability_best",
                "how probable it is that it is the best; null: nothing was drawn, or there is no other",
                answer.order.size() > 1 ? best_of(answer.best_with, place) : std::nullopt);
  to.only_where(ranked, "probability_deadline",
                "probability to meet the deadline, with failures where they are predicted, of the cases in which it "
                "fits in memory",
                probability({.days = answer.limits.days}));
  to.only_where(ranked, "probability_budget", "probability to stay within the budget, in the same way",
                probability({.usd = answer.limits.usd}));
}

// Returns the ranks of the contenders other than the most probable: on its cluster with its profile, or on others.
std::vector<std::size_t> ranks_of_contenders(const sim::PlanAnswer& answer, bool same_hardware) {
  std::vector<std::size_t> ranks;
  const auto hardware = [&](std::size_t place) {
    const sim::ClusterOption& option = answer.options[answer.order[place]];
    return std::pair(option.cluster, option.inputs.profile.name());
  };
  const auto& contenders = answer.verdict.contenders;
  for (std::size_t i = 1; i < contenders.size(); ++i)
    if ((hardware(contenders[i]) == hardware(contenders[0])) == same_hardware) ranks.push_back(contenders[i] + 1);
  return ranks;
}

void verdict_fields(auto& to, const sim::PlanAnswer& answer) {
  const bool met = answer.limits_met();
  const bool short_of = !met && !answer.order.empty();
  to("winner", "rank of the cluster that is best with enough probability",
     answer.verdict.winner ? std::optional(*answer.verdict.winner + 1) : std::nullopt);
  to("indistinguishable", "ranks of other clusters that may be the best", ranks_of_contenders(answer, false));
  to("ties", "ranks on the same hardware that may be", ranks_of_contenders(answer, true));
  to("probability_needed", "probability that is asked for", sim::sure_enough);
  to("limits_met", "whether any answer meets all limits", met);
  to("shortfall", "why the limits are not met",
     short_of ? std::optional(std::string(unmet_limits(answer))) : std::nullopt);
}

// A break-even, and what it is against.
struct Flip {
  sim::BreakEven break_even;
  bool of_hardware = false;
  std::string then_better;
};

std::vector<Flip> flips_of(const sim::PlanAnswer& answer) {
  std::vector<Flip> flips;
  for (const sim::BreakEvenSection& section : answer.break_evens) {
    const std::vector<std::string> names = alternative_names(answer, section);
    for (const sim::BreakEven& one : section.break_evens)
      flips.push_back({one, section.hardware, one.factor ? names[one.by] : ""});
  }
  return flips;
}

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

void fields(auto& to, const sim::PlanAnswer& answer) {
  const bool found = !answer.order.empty();
  const std::vector<PlacedCluster> clusters = placed_clusters(answer);
  const std::vector<Flip> flips = flips_of(answer);
  const auto recommended = where(found, answer.recommended);
  const model::Plan taken = found ? answer.best(answer.recommended).plan : model::Plan();
  to("question", "what was asked", Object([&answer](auto& part_to) {
       part_to("subject", "plan or model that is asked about", answer.name);
       part_to("objective", "what is made best", std::string(to_string(answer.objective)));
       part_to("deadline_days", "days within which the training should end", answer.limits.days);
       part_to("budget_usd", "largest cost of the training", answer.limits.usd);
       part_to("assumptions", "what the question leaves open and what was taken", answer.assumptions);
       part_to("overrides", "keys of the plan that were set", answer.overrides);
     }));
  to("complete", "false: it was interrupted", answer.complete);
  to("every_value", "whether every value was tried that makes sense", answer.every_value);
  to("verdict", "whether an answer meets the limits with the probability asked for",
     Object([&answer](auto& part_to) { verdict_fields(part_to, answer); }));
  to("sites", "clusters, each with its best plans",
     List(clusters,
          [&answer](auto& site_to, const PlacedCluster& placed) { cluster_fields(site_to, answer, placed); }));
  to("flips", "break-evens", List(flips, [](auto& flip_to, const Flip& flip) {
       flip_to("against", "which subject the others are compared with",
               Word{flip.of_hardware ? "sites" : "plans", {"sites", "plans"}});
       flip_to("quantity", "what would have to change", sim::describe(flip.break_even.quantity));
       flip_to("factor", "on the quantity; null: none changes the order", flip.break_even.factor);
       flip_to("then_better", "what is better from there on", unless_empty(flip.then_better));
     }));
  to("plan", "the plan", plan_where<Json>(found, taken));
  to("recommendation", "the offer to take; null: none has a plan",
     Maybe(recommended, [&](auto& part_to, std::size_t place) {
       part_to("rank", "of the cluster; where nothing meets the limits, of the nearest", place + 1);
       part_to("within_limits", "whether its middle meets all limits", answer.limits_met());
       part_to("words", "what it takes, the next best, what would overturn it, the fewest GPUs by the deadline",
               found ? recommendation(answer) : std::vector<std::string>());
     }));
}

std::string plan_json(const sim::PlanAnswer& answer) { return document("plan", written<Json>(answer)); }

std::string plan_answer_schema() { return schema_of<Json, sim::PlanAnswer>(); }

std::string plan_csv(const sim::PlanAnswer& answer) {
  Json rows = Json::array();
  for (const PlacedCluster& placed : placed_clusters(answer)) {
    const Json site = object_of<Json>([&](auto& to) { cluster_fields(to, answer, placed); });
    Json head = Json::object();
    for (const char* key : {"cluster", "gpus", "profile", "stack", "no_plan_because"}) head[key] = site[key];
    if (site["plans"].empty() && site["edge"].empty()) rows.push_back(head);
    for (const char* list : {"plans", "edge"}) {
      for (std::size_t place = 0; place < site[list].size(); ++place) {
        Json& row = rows.emplace_back(head);
        row["cluster_rank"] = site["rank"];
        row["plan_rank"] = list == std::string_view("edge") ? Json(nullptr) : Json(place + 1);
        row.update(site[list][place]);
        row["plan"] = searched_keys(row["plan"]);
        row["finish_by"] = {{"gpus", site["finish_by"].is_null() ? Json(nullptr) : site["finish_by"]["gpus"]}};
      }
    }
  }
  return csv_of_rows(rows);
}

void fields(auto& to, const sim::DeploymentPoint& one) {
  point_fields(to, one.point, false);
  to("deployment", "place of the deployment in plans", sim::deployment_words(one.plan));
}

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

std::string deployments_schema() { return schema_of<Json, sim::DeploymentAnswer>(); }

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

std::string rollout_plans_schema() { return schema_of<Json, sim::RolloutAnswer>(); }

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
