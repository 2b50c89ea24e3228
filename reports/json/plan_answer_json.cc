#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "reports/json/detail/campaign_parts.h"
#include "reports/json/detail/schemas.h"
#include "reports/json/json.h"
#include "reports/quantities.h"
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
  to("step", embedded<Json>("step", step_json(row.result.step)), "");
  to("days", where(run.has_value(), cost.days), "days of the training");
  to("gpu_hours", where(run.has_value(), cost.gpu_hours), "hours of one GPU");
  to("cost_usd", cost.cost_usd, "cost in US dollars");
  to("cost_usd_low", run ? run->cost_low_usd(run->gpu_hours) : std::nullopt, "lower end of the cost");
  to("cost_usd_high", run ? run->cost_high_usd(run->gpu_hours) : std::nullopt, "upper end of the cost");
  to("memory", Object{[&row](auto& part_to) {
       part_to("peak_bytes", row.result.memory.peak_bytes, "bytes of the fullest rank");
       part_to("capacity_bytes", row.result.memory.capacity_bytes, "bytes of a GPU");
     }},
     "memory of the ranks");
  to("within_limits", sim::within(row.cost, answer.limits), "whether the middle meets all limits");
  to("twins", row.twins, "other plans with the same work, time and memory");
  to("middle", embedded<Json>("middle", middle_json(row.result)), "");
  to("interval", embedded<Json>("interval", interval_json(row.result.interval)), "");
  to("reason", unless_empty(reason), "why not, where it cannot be");
  to("plan", embedded<Json>("plan", plan_json(row.plan)), "");
  to("fit", embedded<Json>("fit", fit_json(row.result.memory)), "");
  to("probability_best", best, "how probable it is that it is the best; null: nothing was drawn");
  to("probability_deadline", probability_of(row.cost, {.days = answer.limits.days}),
     "probability to meet the deadline, of the cases in which it fits in memory");
  to("probability_budget", probability_of(row.cost, {.usd = answer.limits.usd}),
     "probability to stay within the budget, of the cases in which it fits in memory");
}

auto families_of(const model::StepResult& result) {
  return Object{[&result](auto& to) {
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
      to(key_of_name(family.name), Object{[&family](auto& share_to) {
           share_to("share_of_step", family.share, "share of the step that the constants account for");
           share_to("measured_share_of_step", family.measured,
                    "share of the step that constants measured on this GPU account for");
         }},
         meaning == meanings.end() ? "" : meaning->second);
    }
  }};
}

auto offer_of(const sim::ClusterOption& option) {
  return Object{[&option](auto& to) {
    const auto price = sim::price_of(option);
    const auto& value = price.value;
    to("ownership", option.inputs.plan.run.ownership, "whether the GPUs are rented or bought");
    to("usd_per_gpu_hour", value ? std::optional(value->value) : std::nullopt, "price of a GPU-hour");
    to("low", value ? std::optional(value->low) : std::nullopt, "lower end");
    to("high", value ? std::optional(value->high) : std::nullopt, "upper end");
    to("kind", Stated<Json>{value ? Json(value->kind) : Json(nullptr), or_null(reference<Json>("price_kind"))},
       "what kind of thing it is");
    to("source", value ? std::optional(value->source) : std::nullopt, "where it is from");
    to("missing", unless_empty(price.missing), "what the price does not contain");
  }};
}

void training_fields(auto& to, const sim::CampaignAnswer& training, const sim::Limits& limits,
                     const std::string& rates) {
  const sim::CampaignResult& campaign = training.result;
  to("days", where(training.run.has_value(), training.days),
     "over the interval of the step and failures; null: it never finishes");
  to("cost_usd", training.usd(), "the same in USD");
  to("probability_deadline", probability_of(training, {.days = limits.days}), "with failures, if it fits in memory");
  to("probability_budget", probability_of(training, {.usd = limits.usd}), "with failures, if it fits in memory");
  to("goodput", campaign.goodput, "at the predicted step");
  to("mean_goodput", campaign.mean_goodput, "mean over all simulated campaigns");
  to("interruptions", campaign.interruptions, "");
  to("finished", campaign.finished, "share of the campaigns that finish");
  to("never", unless_empty(campaign.never), "why others do not");
  to("hours_between_failures", if_finite(campaign.hours_between_failures), "mean hours from one failure to the next");
  to("mean_time_s", campaign.mean, "");
  to("checkpoint_interval_s", if_finite(campaign.checkpoint_interval_s), "seconds from one checkpoint to the next");
  to("spare_nodes", training.input.spare_nodes, "nodes kept as spares");
  to("reliability", rates, "name of the rates of failures");
  to("seeds", training.input.seeds, "campaigns simulated");
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
  Stated<Json> assumed = embedded<Json>("assumed", assumed_json(first.result.assumed), true);
  if (!ranked || place != answer.recommended) assumed.value = nullptr;
  std::size_t at = 0;
  to("cluster", option.cluster, "name of the cluster");
  to("gpus", option.gpus, "number of GPUs");
  to("profile", unless_empty(option.inputs.profile.name()), "profile with the constants");
  to("stack", unless_empty(option.inputs.profile.stack()), "software stack");
  to("rank", where(ranked, place + 1), "by the objective; null: no plan");
  to("dominated", ranked ? answer.dominated[place] : std::nullopt, "whether another is both faster and cheaper");
  to("reason",
     ranked && place > 0
         ? std::optional(reason_between(*placed_clusters(answer)[place - 1].option, option, answer.objective))
         : std::nullopt,
     "why it is behind the one above");
  to("no_plan_because", !ranked && placed.option != nullptr ? std::optional(why_empty(option)) : std::nullopt,
     "why there is no plan");
  to("measured_share", ranked ? std::optional(measured_share(first.result)) : std::nullopt,
     "share of the step on measured, fitted or published constants");
  const auto measured = where(ranked, &first.result);
  to("measured_by_family",
     Maybe(measured,
           [](auto& family_to, const model::StepResult* result) {
             static const model::StepResult no_result;
             families_of(result == nullptr ? no_result : *result).fields(family_to);
           }),
     "by family of constants; 0: the step uses none");
  to("interval",
     Maybe(range,
           [](auto& end_to, const model::Quantiles& ends) {
             end_to("low", ends.p10, "lower end");
             end_to("high", ends.p90, "upper end");
           }),
     "of the objective: eight of ten cases");
  to("price", offer_of(option), "what a GPU-hour costs");
  const auto campaign = ranked ? option.campaign : std::nullopt;
  to("campaign",
     Maybe(campaign,
           [&](auto& part_to, const sim::CampaignAnswer& training) {
             training_fields(part_to, training, answer.limits, option.rates);
           }),
     "the training with its failures, by its first plan; null: without tokens or rates of failures, or where a phase "
     "cannot be predicted");
  to("notes", option.notes, "what to know about it");
  to("search", Object{[&option](auto& part_to) {
       part_to("space", option.search.space, "plans of the space");
       part_to("evaluated", option.search.evaluated, "how many were predicted");
       part_to("complete", option.search.complete, "false: it was interrupted");
       part_to("removed",
               List(option.search.removed,
                    [](auto& removed_to, const sim::Removed& removed) {
                      removed_to("rule", removed.rule, "rule that removed them");
                      removed_to("plans", removed.plans, "how many were removed");
                      removed_to("example", unless_empty(removed.example), "one of those that were removed");
                    }),
               "what was cut without a prediction, by rule");
     }},
     "how many were evaluated and removed");
  to("plans",
     List(option.plans,
          [&](auto& row_to, const sim::RankedPlan& row) {
            const std::string reason =
                at == 0 || at >= option.plans.size() ? "" : reason_on_option(option.plans[at - 1], row);
            row_fields(row_to, answer, row, reason,
                       at < option.best_with.size() ? std::optional(option.best_with[at]) : std::nullopt);
            ++at;
          }),
     "plans, the best first");
  to("edge",
     List(option.edge,
          [&](auto& row_to, const sim::RankedPlan& row) { row_fields(row_to, answer, row, "", std::nullopt); }),
     "faster plans that fit with less than search.min_fit, the fastest first");
  to("finish_by", option.campaign ? option.campaign->finish : std::nullopt,
     "with a deadline, the fewest GPUs of its first plan's degrees that end by then");
  to("assumed", assumed, "what the plan of the recommended option leaves open of the software; null: another option");
  to.only_where(ranked, "probability_best", best_of(answer.best_with, place),
                "how probable it is that it is the best; null: nothing was drawn");
  to.only_where(ranked, "probability_deadline", probability_of(first.cost, {.days = answer.limits.days}),
                "probability to meet the deadline, of the cases in which it fits in memory");
  to.only_where(ranked, "probability_budget", probability_of(first.cost, {.usd = answer.limits.usd}),
                "probability to stay within the budget, of the cases in which it fits in memory");
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
  const bool met = !answer.order.empty() && sim::within(answer.best(0).cost, answer.limits);
  const bool short_of = !met && !answer.order.empty();
  to("winner", answer.verdict.winner ? std::optional(*answer.verdict.winner + 1) : std::nullopt,
     "rank of the cluster that is best with enough probability");
  to("indistinguishable", ranks_of_contenders(answer, false), "ranks of other clusters that may be the best");
  to("ties", ranks_of_contenders(answer, true), "ranks on the same hardware that may be");
  to("probability_needed", sim::sure_enough, "probability that is asked for");
  to("limits_met", met, "whether any answer meets all limits");
  to("shortfall", short_of ? std::optional(std::string(unmet_limits(answer))) : std::nullopt,
     "why the limits are not met");
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

void plan_answer_fields(auto& to, const sim::PlanAnswer& answer) {
  const bool found = !answer.order.empty();
  const std::vector<PlacedCluster> clusters = placed_clusters(answer);
  const std::vector<Flip> flips = flips_of(answer);
  const auto recommended = where(found, answer.recommended);
  Stated<Json> taken =
      embedded<Json>("plan", plan_json(found ? answer.best(answer.recommended).plan : model::Plan()), true);
  if (!found) taken.value = nullptr;
  to("question", Object{[&answer](auto& part_to) {
       part_to("subject", answer.name, "plan or model that is asked about");
       part_to("objective", std::string(to_string(answer.objective)), "what is made best");
       part_to("deadline_days", answer.limits.days, "days within which the training should end");
       part_to("budget_usd", answer.limits.usd, "largest cost of the training");
       part_to("assumptions", answer.assumptions, "what the question leaves open and what was taken");
       part_to("overrides", answer.overrides, "keys of the plan that were set");
     }},
     "what was asked");
  to("complete", answer.complete, "false: it was interrupted");
  to("every_value", answer.every_value, "whether every value was tried that makes sense");
  to("verdict", Object{[&answer](auto& part_to) { verdict_fields(part_to, answer); }},
     "whether an answer meets the limits with the probability asked for");
  to("sites",
     List(clusters, [&answer](auto& site_to, const PlacedCluster& placed) { cluster_fields(site_to, answer, placed); }),
     "clusters, each with its best plans");
  to("flips",
     List(flips,
          [](auto& flip_to, const Flip& flip) {
            flip_to("against", Word{flip.of_hardware ? "sites" : "plans", {"sites", "plans"}},
                    "which subject the others are compared with");
            flip_to("quantity", sim::describe(flip.break_even.quantity), "what would have to change");
            flip_to("factor", flip.break_even.factor, "on the quantity; null: none changes the order");
            flip_to("then_better", unless_empty(flip.then_better), "what is better from there on");
          }),
     "break-evens");
  to("plan", taken, "the plan");
  to("recommendation",
     Maybe(recommended,
           [&](auto& part_to, std::size_t place) {
             part_to("rank", place + 1, "of the cluster; where nothing meets the limits, of the nearest");
             part_to("within_limits", found && sim::within(answer.taken(place), answer.limits),
                     "whether its middle meets all limits");
             part_to("words", found ? recommendation(answer) : std::vector<std::string>(),
                     "what it takes, the next best, what would overturn it, the fewest GPUs by the deadline");
           }),
     "the offer to take; null: none has a plan");
}

}  // namespace

std::string plan_json(const sim::PlanAnswer& answer) {
  return document("plan", written<Json>(Object{[&](auto& to) { plan_answer_fields(to, answer); }}));
}

std::string plan_answer_schema() {
  return text_of_json(document_schema<Json>("plan", "plumbline plan MODEL --json",
                                            "The best plans of a model on clusters, to train it.",
                                            [](auto& to) { plan_answer_fields(to, sim::PlanAnswer()); }));
}

std::string plan_csv(const sim::PlanAnswer& answer) {
  Json rows = Json::array();
  for (const PlacedCluster& placed : placed_clusters(answer)) {
    const Json site = written<Json>(Object{[&](auto& to) { cluster_fields(to, answer, placed); }});
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

}  // namespace plumbline::reports
