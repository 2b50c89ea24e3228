// Searches how the GPUs of a cluster are divided between the two halves of reinforcement learning: where answers are
// generated, on how many GPUs, and with which degrees the policy is trained there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "sim/search/cluster_option.h"
#include "sim/tasks/watch.h"

namespace plumbline::sim {

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
// `watch` follows the splits that are decided, in place of that of the options. Returns input errors.
model::Result<void> search_splits(RolloutAnswer& answer, std::size_t option, std::int64_t gpus, const LoadInputs& load,
                                  const SearchOptions& options, const Watch& watch);

// Orders the splits by the objective, those within the limits first.
void rank(RolloutAnswer& answer);

}  // namespace plumbline::sim
