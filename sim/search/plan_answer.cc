#include "sim/search/plan_answer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "sim/analysis/assumed.h"
#include "sim/search/detail/plan_draws.h"

namespace plumbline::sim {
namespace {

constexpr std::size_t most_alternatives = 3;

using Alternatives = std::vector<std::pair<const ClusterOption*, const RankedPlan*>>;

Inputs inputs_of(const ClusterOption& option, const RankedPlan& row) {
  Inputs inputs = option.inputs;
  inputs.plan = row.plan;
  return inputs;
}

// Returns a plan for the comparison; its measure is proportional to the step.
BreakEvenCandidate candidate(const Inputs& inputs, const RankedPlan& row, Objective objective) {
  return {&inputs, row.cost.step_s, measure(row.cost, objective).value_or(row.cost.step_s) / row.cost.step_s};
}

std::vector<BreakEven> break_evens_among(const PlanAnswer& answer, const Alternatives& others,
                                         const BreakEvenOptions& options) {
  const ClusterOption& first = answer.choice();
  std::vector<Inputs> inputs = {inputs_of(first, first.plans.front())};
  std::vector<bool> same;
  for (const auto& [option, row] : others) {
    inputs.push_back(inputs_of(*option, *row));
    const bool profile = option->inputs.profile.name() == first.inputs.profile.name();
    same.push_back(option->cluster == first.cluster && profile);
  }
  const BreakEvenCandidate winner = candidate(inputs.front(), first.plans.front(), answer.objective);
  std::vector<BreakEvenCandidate> alternatives;
  for (std::size_t i = 0; i < others.size(); ++i)
    alternatives.push_back(candidate(inputs[i + 1], *others[i].second, answer.objective));
  return break_evens(winner, alternatives, same, options);
}

// Returns by what factor a plan exceeds its worst limit; infinite where days or USD are not known.
double over_limits(const PlanCost& cost, const Limits& limits) {
  const auto over = [](const std::optional<double>& value, const std::optional<double>& limit) {
    constexpr double unknown_amount = std::numeric_limits<double>::infinity();
    return !limit ? 0 : value ? *value / *limit : unknown_amount;
  };
  return std::max(over(cost.days, limits.days), over(cost.usd, limits.usd));
}

std::size_t recommended_place(const PlanAnswer& answer) {
  const std::size_t likeliest = answer.verdict.winner.value_or(0);
  if (answer.order.empty() || answer.within_limits(likeliest)) return likeliest;
  const auto over = [&](std::size_t place) { return over_limits(answer.taken(place), answer.limits); };
  std::size_t nearest = likeliest;
  for (std::size_t place = 0; place < answer.order.size(); ++place) {
    if (answer.within_limits(place)) return place;
    if (over(place) < over(nearest)) nearest = place;
  }
  return nearest;
}

}  // namespace

PlanCost PlanAnswer::taken(std::size_t place) const {
  PlanCost cost = best(place).cost;
  const auto& campaign = options[order[place]].campaign;
  if (!campaign || !campaign->run) return cost;
  cost.days = campaign->days.p50;
  const auto usd = campaign->usd();
  if (usd) cost.usd = usd->p50;
  return cost;
}

void rank(PlanAnswer& answer) {
  std::vector<PlanCost> candidates;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < answer.options.size(); ++i) {
    ClusterOption& option = answer.options[i];
    if (option.plans.empty()) {
      answer.empty.push_back(i);
      continue;
    }
    std::vector<PlanCost> plans;
    for (const RankedPlan& row : option.plans) plans.push_back(row.cost);
    if (plans.size() > 1) option.best_with = probabilities_best(plans, answer.objective, answer.limits);
    places.push_back(i);
    candidates.push_back(std::move(plans.front()));
  }
  const auto known = dominated(candidates);
  const auto best = probabilities_best(candidates, answer.objective, answer.limits);
  for (const std::size_t i : ranked(candidates, answer.objective, answer.limits)) {
    answer.order.push_back(places[i]);
    answer.dominated.push_back(known[i]);
    if (!best.empty()) answer.best_with.push_back(best[i]);
  }
  answer.verdict = verdict(answer.best_with);
  answer.recommended = recommended_place(answer);
}

void find_break_evens(PlanAnswer& answer, unsigned threads, const std::function<bool()>& stopped) {
  const ClusterOption& first = answer.choice();
  BreakEvenOptions options;
  options.threads = threads;
  options.stopped = stopped;
  Alternatives plans, clusters;
  std::vector<std::size_t> plan_places, cluster_places;
  for (std::size_t i = 1; i < first.plans.size() && plans.size() < most_alternatives; ++i) {
    plans.emplace_back(&first, &first.plans[i]);
    plan_places.push_back(i);
  }
  const auto own = measure(first.plans.front().cost, answer.objective);
  for (std::size_t i = 0; i < answer.order.size() && clusters.size() < most_alternatives; ++i) {
    const RankedPlan& best = answer.best(i);
    const auto value = measure(best.cost, answer.objective);
    if (i == answer.recommended || !answer.within_limits(i) || !value || value < own) continue;
    clusters.emplace_back(&answer.options[answer.order[i]], &best);
    cluster_places.push_back(i);
  }
  if (!plans.empty())
    answer.break_evens.push_back({false, std::move(plan_places), break_evens_among(answer, plans, options)});
  options.weight_is_price = answer.objective == Objective::cost;
  if (!clusters.empty())
    answer.break_evens.push_back({true, std::move(cluster_places), break_evens_among(answer, clusters, options)});
}

model::Result<void> find_parts(PlanAnswer& answer, unsigned threads) {
  ClusterOption& option = answer.options[answer.order[answer.recommended]];
  RankedPlan& best = option.plans.front();
  Inputs inputs = inputs_of(option, best);
  if (best.result.interval) best.result.interval->parts = TRY(drawn_parts(inputs, threads, best.result));
  // What was searched is not open.
  for (const char* key : {"recompute.policy", "overlap.communication_sms"}) inputs.plan.places[key] = {};
  best.result.assumed = TRY(assumed_of_step(inputs));
  return {};
}

model::Result<void> find_campaigns(PlanAnswer& answer, const AddCampaign& add_campaign, const LoadInputs& load,
                                   const PredictStep& predict, Tasks& tasks) {
  const CampaignOptions options{.intervals = false, .spares = {}, .finish_days = answer.limits.days, .tasks = &tasks};
  for (const std::size_t place : answer.order) {
    ClusterOption& option = answer.options[place];
    const RankedPlan& best = option.plans.front();
    if (!best.result.run) continue;
    Inputs inputs = inputs_of(option, best);
    auto rates = add_campaign(inputs);
    if (!rates && rates.error().kind == model::ErrorKind::infeasible) continue;
    option.rates = TRY(std::move(rates));
    const auto on_gpus = [&](std::int64_t gpus) -> model::Result<Inputs> {
      model::Plan plan = best.plan;
      plan.cluster.gpus = gpus;
      auto other = TRY(load(plan));
      TRY(add_campaign(other));
      return other;
    };
    auto campaign = campaign_answer(inputs, best.result, options, predict, on_gpus);
    if (!campaign && campaign.error().kind == model::ErrorKind::infeasible)
      option.notes.push_back("its training with failures cannot be predicted: " + campaign.error().message);
    else
      option.campaign = TRY(std::move(campaign));
  }
  answer.recommended = recommended_place(answer);
  return {};
}

std::optional<double> probability_within(const CampaignAnswer& campaign, const Limits& limits) {
  if (!campaign.run || (limits.usd && !campaign.usd_per_day)) return std::nullopt;
  const double in_time = limits.days ? campaign.share_within(*limits.days) : 1;
  return limits.usd ? std::min(in_time, campaign.share_within_usd(*limits.usd)) : in_time;
}

}  // namespace plumbline::sim
