// Predicts a step of reinforcement learning from the update that a plan trains and the deployment that generates its
// answers (formulas: docs/reinforcement_learning.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/result/result.h"
#include "sim/interval/step_draws.h"
#include "sim/predict/inputs.h"
#include "sim/search/cluster_option.h"
#include "sim/tasks/watch.h"

namespace plumbline::sim {

// Returns the step of a plan with [rollout], whose inputs have `engines`, and a `reward` where the plan names a model.
// `update` is the result of its [batch], which is trained rollout.updates times in each epoch. Answers are drawn by a
// fixed seed. Errors: infeasible ones of the engines, with the keys of [rollout] (GPUs that are no whole number of
// instances, weights or the longest answer that do not fit); a profile that lacks a constant is an input error.
model::Result<model::RolloutResult> predict_rollout(const Inputs& inputs, const model::StepResult& update);

// Adds the interval of the step to the rollout of an update: `draws` of the update, which add_spread() returns, and
// such of the engines' decode steps, each with what is left of its software, independent of each other; what is sent
// and copied is as predicted. There is none where it was stopped before it had enough of them. Errors: those of
// draw_serving_interval().
model::Result<void> add_rollout_interval(const Inputs& inputs, model::StepResult& update, const StepDraws& draws,
                                         const IntervalOptions& options);

// Adds the step of reinforcement learning to the update of a plan with [rollout], with its interval where there are
// draws of the update, or why its engines cannot be; to that of another plan nothing. Returns input errors.
model::Result<void> add_rollout(const Inputs& inputs, model::StepResult& update, const std::optional<StepDraws>& draws,
                                const IntervalOptions& options);

// Searches how the GPUs of a cluster are divided between the two halves of reinforcement learning: where answers are
// generated, on how many GPUs, and with which degrees the policy is trained there.

// One placement with one number of GPUs that generate, on one cluster.
struct RolloutSplit {
  std::size_t option = 0;  // of RolloutAnswer::options
  std::string placement;   // as rollout.placement
  std::int64_t training_gpus = 0, engine_gpus = 0;
  // The fastest plan that fits in memory, its update with the `rollout`, and what a run of rollout.steps costs in the
  // middle of the step's interval.
  std::optional<RankedPlan> best;
  std::string refusal;  // why there is none
};

struct RolloutAnswer {
  std::string name;                    // of the plan
  std::vector<std::string> overrides;  // given with --set
  Objective objective = Objective::time;
  Limits limits;
  std::vector<ClusterOption> options;  // whose plans stay empty
  std::vector<RolloutSplit> splits;    // after rank(): the best first, then those without a plan
  bool complete = true;                // false: stopped before every split was decided

  const ClusterOption& option_of(const RolloutSplit& split) const { return options[split.option]; }
  bool found() const { return !splits.empty() && splits.front().best.has_value(); }
};

// Appends the splits of `gpus` GPUs of an option, in which the inputs' plan has [rollout]: those of training and
// generation on the same GPUs, and, in eighths of the GPUs and whole nodes, on GPUs of their own, one half after the
// other and both at once. What --set gives of rollout.placement, rollout.gpus and rollout.tensor stays. In each, the
// updates are those of search() with the keys of [search], and engines have each power of two of a node's GPUs as
// rollout.tensor; degrees that keep updates the shortest are combined with the engines that generate the fastest.
// `watch` follows the splits that are decided, in place of that of the options. `load_found` loads a split's best plan
// as the file is read that states all of it. Returns input errors.
model::Result<void> search_splits(RolloutAnswer& answer, std::size_t option, std::int64_t gpus, const LoadInputs& load,
                                  const LoadInputs& load_found, const SearchOptions& options, const Watch& watch);

// Orders the splits by the objective, those within the limits first.
void rank(RolloutAnswer& answer);

}  // namespace plumbline::sim
