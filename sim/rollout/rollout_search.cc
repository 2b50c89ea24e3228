#include "sim/rollout/rollout_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "model/plan/rollout.h"
#include "model/result/result.h"
#include "sim/interval/interval.h"
#include "sim/predict/simulate.h"
#include "sim/rollout/rollout.h"

namespace plumbline::sim {
namespace {

using model::ErrorKind;
using model::Plan;
using model::Result;

constexpr std::size_t tried_updates = 3;  // fastest ones of a number of GPUs, until one fits with its engines

// Numbers of GPUs that generate on GPUs of their own: eighths of all, in whole nodes where there are several.
std::vector<std::int64_t> engine_shares(const Plan& plan, std::int64_t gpus, std::int64_t node) {
  if (asked(plan, "rollout.gpus")) return {model::rollout_gpus(plan)};
  const std::int64_t eighth = std::max<std::int64_t>(1, gpus / 8);
  const std::int64_t unit = gpus > node ? (eighth + node - 1) / node * node : eighth;
  std::vector<std::int64_t> shares;
  for (std::int64_t share = unit; share < gpus; share += unit) shares.push_back(share);
  return shares;
}

std::vector<std::int64_t> engine_tensors(const Plan& plan, std::int64_t engine_gpus, std::int64_t node) {
  const std::int64_t own = plan.rollout.tensor.value_or(1);
  if (asked(plan, "rollout.tensor")) return {own};
  std::vector<std::int64_t> tensors;
  for (std::int64_t tensor = 1; tensor <= node; tensor *= 2)
    if (engine_gpus % tensor == 0) tensors.push_back(tensor);
  if (std::ranges::find(tensors, own) == tensors.end()) tensors.push_back(own);
  return tensors;
}

// Returns the plan with `engine_gpus` of the GPUs for generation, or with all of them for both halves.
Plan divided(Plan plan, const std::string& placement, std::int64_t gpus, std::int64_t engine_gpus) {
  auto& r = plan.rollout;
  r.placement = placement;
  if (model::is_colocated(plan)) {
    r.gpus.reset();
    plan.cluster.gpus = gpus;
  } else {
    r.gpus = engine_gpus;
    r.offload.reset();
    plan.cluster.gpus = gpus - engine_gpus;
  }
  if (placement != "asynchronous") r.staleness.reset();
  return plan;
}

// The fastest updates on a number of GPUs that train.
struct Updates {
  Inputs inputs;
  std::vector<RankedPlan> plans;
};

double seconds_per_sequence(const RankedPlan& found) {
  return found.result.step.time_s / static_cast<double>(found.plan.batch.global_batch_size);
}

Result<Updates> find_updates(const Plan& plan, const LoadInputs& load, SearchOptions options, const Watch& watch) {
  Updates updates{TRY(load(plan)), {}};
  options.top = tried_updates;
  options.stopped = watch.stopped;
  options.on_progress = {};
  const SearchResult found = TRY(search(updates.inputs, options));
  std::vector<Plan> plans;
  for (const Candidate& candidate : found.best) {
    plans.push_back(candidate.plan);
    plans.back().search = {};
    if (plans.size() == tried_updates) break;
  }
  auto simulations = simulate_top_plans(updates.inputs, plans, watch.stopped);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (!simulations[i]) continue;
    model::StepResult& result = simulations[i]->result;
    Inputs own = updates.inputs;
    own.plan = plans[i];
    if (result.memory.fits) add_fit(own, result.memory);
    if (result.memory.fits && *result.memory.fits_probability >= plan.search.min_fit)
      updates.plans.push_back({std::move(plans[i]), std::move(result), {}});
  }
  std::ranges::stable_sort(updates.plans, {}, seconds_per_sequence);
  if (!updates.plans.empty()) return updates;
  const bool evaluated = found.evaluated > 0 || found.removed.empty();
  const std::string rule = evaluated ? "none that was evaluated fits in memory" : found.removed.back().rule;
  return model::infeasible("rollout", fmt::format("no update on {} GPUs: {}", plan.cluster.gpus, rule),
                           "leave more GPUs to the training, or shard more");
}

// Returns what the step costs in the middle of its interval.
PlanCost cost_of(const model::RolloutResult& rollout) {
  const model::RolloutResult middle = model::middle_rollout(rollout);
  PlanCost cost;
  cost.gpus = static_cast<double>(middle.gpus);
  cost.step_s = middle.step_s;
  if (!middle.run) return cost;
  cost.days = middle.run->days;
  cost.gpu_hours = middle.run->gpu_hours;
  cost.usd = middle.run->cost_usd;
  return cost;
}

// Adds the interval of the step to a split's best plan, of which there is none where it was stopped.
Result<void> add_interval(const Inputs& inputs, RankedPlan& best, unsigned threads, const Watch& watch) {
  const IntervalOptions options{.threads = threads, .parts = false, .watch = {watch.stopped}};
  auto drawn = TRY(unless_stopped(draw_interval(inputs, best.result, options)));
  if (!drawn) return {};
  best.result.interval = std::move(drawn->interval);
  TRY(add_rollout_interval(inputs, best.result, drawn->draws, options));
  best.cost = cost_of(*best.result.rollout);
  return {};
}

// Fills the split with the fastest update that fits next to the engines which make the shortest step with it. Returns
// the inputs of the found plan.
Result<std::optional<Inputs>> decide(const Updates& updates, const Plan::Rollout& rollout_keys,
                                     const std::vector<std::int64_t>& tensors, RolloutSplit& split) {
  std::optional<Inputs> found;
  for (const RankedPlan& update : updates.plans) {
    for (const std::int64_t tensor : tensors) {
      Inputs own = updates.inputs;
      own.plan = update.plan;
      own.plan.rollout = rollout_keys;
      own.plan.rollout.tensor = tensor;
      auto engines = std::make_shared<Inputs>(*own.engines);
      engines->plan.parallelism.tensor = tensor;
      own.engines = std::move(engines);
      const auto rollout = predict_rollout(own, update.result);
      if (!rollout && rollout.error().kind == ErrorKind::input) return tl::unexpected(rollout.error());
      if (!rollout || !rollout->memory.fits) {
        split.refusal = rollout ? "training, generation or their states on the hosts do not fit in memory"
                                : rollout.error().message;
        continue;
      }
      if (split.best && split.best->cost.step_s <= rollout->step_s) continue;
      split.best = RankedPlan{own.plan, update.result, cost_of(*rollout)};
      split.best->result.rollout = *rollout;
      found = std::move(own);
    }
    if (!split.best) continue;
    split.refusal.clear();
    break;
  }
  return found;
}

}  // namespace

Result<void> search_splits(RolloutAnswer& answer, std::size_t option, std::int64_t gpus, const LoadInputs& load,
                           const SearchOptions& options, const Watch& watch) {
  const Inputs& given = answer.options[option].inputs;
  const std::int64_t node = given.cluster.gpus_per_node;
  const auto wanted = [&](const std::string& placement) {
    return !asked(given.plan, "rollout.placement") || given.plan.rollout.placement == placement;
  };
  std::vector<RolloutSplit> splits;
  if (wanted("colocated")) splits.push_back({option, "colocated", gpus, gpus, {}, {}});
  for (const std::int64_t share : engine_shares(given.plan, gpus, node))
    for (const char* placement : {"split", "asynchronous"})
      if (wanted(placement)) splits.push_back({option, placement, gpus - share, share, {}, {}});
  std::optional<Result<Updates>> updates;
  std::int64_t trained = 0;  // GPUs of `updates`
  for (std::size_t i = 0; i < splits.size(); ++i) {
    RolloutSplit& split = splits[i];
    if (watch.on_progress) watch.on_progress(i, splits.size());
    if (watch.stops()) {
      answer.complete = false;
      break;
    }
    if (split.training_gpus < 1) {
      split.refusal = fmt::format("rollout.gpus = {} leaves none of {} GPUs to the training", split.engine_gpus, gpus);
      answer.splits.push_back(std::move(split));
      continue;
    }
    Plan plan = divided(given.plan, split.placement, gpus, split.engine_gpus);
    if (!updates || trained != split.training_gpus) {
      trained = split.training_gpus;
      const auto completed = model::complete_rollout(plan);
      updates = completed ? find_updates(plan, load, options, watch) : tl::unexpected(completed.error());
      if (watch.stops()) {  // of whose updates not all were decided
        answer.complete = false;
        break;
      }
    }
    if (!*updates && updates->error().kind == ErrorKind::input) return tl::unexpected(updates->error());
    if (*updates) {
      const auto found =
          TRY(decide(**updates, plan.rollout, engine_tensors(given.plan, split.engine_gpus, node), split));
      if (found) TRY(add_interval(*found, *split.best, options.threads, watch));
    } else {
      split.refusal = updates->error().message;
    }
    if (watch.stops()) answer.complete = false;
    if (answer.complete || split.best) answer.splits.push_back(std::move(split));  // no refusal of what was stopped
  }
  return {};
}

void rank(RolloutAnswer& answer) {
  std::vector<PlanCost> costs;
  std::vector<std::size_t> found, rest;
  for (std::size_t i = 0; i < answer.splits.size(); ++i) {
    if (answer.splits[i].best) {
      costs.push_back(answer.splits[i].best->cost);
      found.push_back(i);
    } else {
      rest.push_back(i);
    }
  }
  std::vector<RolloutSplit> ordered;
  for (const std::size_t place : ranked(costs, answer.objective, answer.limits))
    ordered.push_back(std::move(answer.splits[found[place]]));
  for (const std::size_t place : rest) ordered.push_back(std::move(answer.splits[place]));
  answer.splits = std::move(ordered);
}

}  // namespace plumbline::sim
