#include "sim/search/plan_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "sim/analysis/assumed.h"
#include "sim/interval/hypercube.h"
#include "sim/interval/interval.h"
#include "sim/search/detail/plan_draws.h"

namespace plumbline::sim {
namespace {

constexpr std::size_t most_alternatives = 3;

// A plan to compare, and what it takes by the objective.
struct Alternative {
  const ClusterOption* option = nullptr;
  const RankedPlan* row = nullptr;
  std::optional<double> amount;
};

Inputs inputs_of(const ClusterOption& option, const RankedPlan& row) {
  Inputs inputs = option.inputs;
  inputs.plan = row.plan;
  return inputs;
}

// Returns a plan for the comparison; what it takes is proportional to the step.
BreakEvenCandidate candidate(const Inputs& inputs, const Alternative& one) {
  const double step_s = one.row->cost.step_s;
  return {&inputs, step_s, one.amount.value_or(step_s) / step_s};
}

std::vector<BreakEven> break_evens_among(const Alternative& first, const std::vector<Alternative>& others,
                                         const BreakEvenOptions& options) {
  std::vector<Inputs> inputs = {inputs_of(*first.option, *first.row)};
  std::vector<bool> same;
  for (const Alternative& other : others) {
    inputs.push_back(inputs_of(*other.option, *other.row));
    const bool profile = other.option->inputs.profile.name() == first.option->inputs.profile.name();
    same.push_back(other.option->cluster == first.option->cluster && profile);
  }
  const BreakEvenCandidate winner = candidate(inputs.front(), first);
  std::vector<BreakEvenCandidate> alternatives;
  for (std::size_t i = 0; i < others.size(); ++i) alternatives.push_back(candidate(inputs[i + 1], others[i]));
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

// Values of what is not drawn through the closed form, for each closed form.
constexpr std::size_t values_of_ratio = 16;

// Returns `values_of_ratio` values for each ratio: times exp(location + the sum of the parts).
std::vector<double> with_errors(const std::vector<double>& ratios, double location, const std::vector<ErrorPart>& parts,
                                std::uint64_t seed) {
  std::vector<double> logs(ratios.size() * values_of_ratio, location);
  for (const ErrorPart& part : parts) {
    if (part.deviation <= 0) continue;
    const std::vector<double> normal = normal_column(part.key, seed, logs.size());
    for (std::size_t i = 0; i < logs.size(); ++i) logs[i] += part.deviation * normal[i];
  }
  std::vector<double> factors;
  for (std::size_t i = 0; i < logs.size(); ++i) factors.push_back(ratios[i / values_of_ratio] * std::exp(logs[i]));
  return factors;
}

}  // namespace

const CampaignAnswer* known_training(const ClusterOption& option) {
  return option.campaign && option.campaign->is_known() ? &*option.campaign : nullptr;
}

PlanCost taken_by(const ClusterOption& option) {
  PlanCost cost = option.plans.front().cost;
  const CampaignAnswer* training = known_training(option);
  if (training == nullptr) return cost;
  if (training->never_ends() || !std::isfinite(training->days.p50)) {
    constexpr double endless = std::numeric_limits<double>::infinity();
    cost.days = cost.gpu_hours = endless;
    if (cost.usd) cost.usd = endless;
  } else {
    cost.days = training->days.p50;
    cost.gpu_hours = training->run->gpu_hours;
    if (const auto usd = training->usd()) cost.usd = usd->p50;
  }
  return cost;
}

std::optional<double> PlanAnswer::probability_within(std::size_t place, const Limits& some) const {
  const ClusterOption& option = options[order[place]];
  if (const CampaignAnswer* training = known_training(option)) return sim::probability_within(*training, some);
  return sim::probability_within(option.plans.front().cost, some);
}

void rank(PlanAnswer& answer) {
  answer.order.clear();
  answer.empty.clear();
  answer.dominated.clear();
  answer.best_with.clear();
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
    candidates.push_back(taken_by(option));
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
  std::vector<Alternative> plans, clusters;
  std::vector<std::size_t> plan_places, cluster_places;
  for (std::size_t i = 1; i < first.plans.size() && plans.size() < most_alternatives; ++i) {
    plans.push_back({&first, &first.plans[i], measure(first.plans[i].cost, answer.objective)});
    plan_places.push_back(i);
  }
  const RankedPlan& plan = first.plans.front();
  const auto own = measure(answer.taken(answer.recommended), answer.objective);
  for (std::size_t i = 0; i < answer.order.size() && clusters.size() < most_alternatives; ++i) {
    const auto value = measure(answer.taken(i), answer.objective);
    if (i == answer.recommended || !answer.within_limits(i) || !value || value < own || std::isinf(*value)) continue;
    clusters.push_back({&answer.options[answer.order[i]], &answer.best(i), value});
    cluster_places.push_back(i);
  }
  if (!plans.empty())
    answer.break_evens.push_back(
        {false, std::move(plan_places),
         break_evens_among({&first, &plan, measure(plan.cost, answer.objective)}, plans, options)});
  options.weight_is_price = answer.objective == Objective::cost;
  if (!clusters.empty())
    answer.break_evens.push_back(
        {true, std::move(cluster_places), break_evens_among({&first, &plan, own}, clusters, options)});
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
  rank(answer);
  return {};
}

std::optional<double> probability_within(const CampaignAnswer& campaign, const Limits& limits) {
  if (campaign.never_ends()) return 0;
  if (!campaign.run || (limits.usd && !campaign.usd_per_day)) return std::nullopt;
  const double in_time = limits.days ? campaign.share_within(*limits.days) : 1;
  return limits.usd ? std::min(in_time, campaign.share_within_usd(*limits.usd)) : in_time;
}

std::vector<ErrorPart> step_errors(const Inputs& inputs) {
  const model::Plan& plan = inputs.plan;
  const Left left = inputs.left.value_or(Left{.own = layout_scatter});
  const double of_plans = std::min(left.own / layout_scatter, 1.0), schedule = of_plans * schedule_scatter;
  const double layout = of_plans * layout_scatter, shared = left.common * left.common / 2;
  std::string key = "step " + inputs.profile.stack();
  std::vector<ErrorPart> parts = {{key, std::sqrt(shared)}};
  const auto add = [&](const std::string& of, double variance) {
    key += of;
    parts.push_back({key, std::sqrt(std::max(variance, 0.0))});
  };
  add(fmt::format(" {} {}", inputs.cluster.name, inputs.profile.name()),
      shared + left.own * left.own - layout * layout);
  std::string degrees = fmt::format(" gpus {} micro-batch {} zero {}", plan.cluster.gpus, plan.batch.micro_batch_size,
                                    plan.parallelism.zero_stage);
  for (const model::Degree& degree : model::parallel_degrees)
    degrees += fmt::format(" {}", plan.parallelism.*degree.value);
  add(degrees, layout * layout - schedule * schedule);
  add(model::to_toml(plan), schedule * schedule);
  return parts;
}

model::Result<void> draw_plan(const Inputs& inputs, unsigned threads, model::StepResult& result, PlanCost& cost) {
  const IntervalOptions options{.threads = threads, .parts = false};
  const std::uint64_t seed = options.seed;
  auto [interval, draws] = TRY(draw_interval(inputs, result, options));
  result.interval = std::move(interval);
  const double middle = result.interval->time_s.p50 / result.step.time_s;
  const double location = inputs.left ? inputs.left->location : 0;
  cost.time_draws = with_errors(draws.time_ratio, location - std::log(middle), step_errors(inputs), seed);
  const std::size_t rows = cost.time_draws.size();
  // Software that needs more memory than is known needs it in all of its plans: the fuller ones fail first.
  const std::vector<double> order = uniform_column("fits with " + inputs.profile.stack(), seed, rows);
  for (std::size_t i = 0; i < rows; ++i)
    if (order[i] > result.interval->fits_probability) cost.time_draws[i] = std::numeric_limits<double>::infinity();
  // Prices of two clusters are two facts; sizes of one cluster have one price.
  const auto price = result.run ? result.run->price().value : std::nullopt;
  cost.price_draws =
      price ? price_draws(*price, "price " + inputs.cluster.name, seed, rows) : std::vector<double>(rows, 1);
  return {};
}

model::Result<std::vector<model::IntervalPart>> drawn_parts(const Inputs& inputs, unsigned threads,
                                                            const model::StepResult& result) {
  return TRY(interval_of(inputs, result, {.threads = threads})).parts;
}

}  // namespace plumbline::sim
