#include "sim/routing_memo.h"

#include <algorithm>

#include "sim/simulate.h"

namespace plumbline::sim {

model::RoutingSpread RoutingMemo::spread(const model::MixtureOfExperts& experts, std::int64_t groups_per_token,
                                         std::int64_t expert_parallel, std::int64_t ranks_per_node) {
  const Key key = {
      experts.routed_experts, experts.groups, experts.experts_per_token, experts.group_score_experts, groups_per_token,
      expert_parallel,        ranks_per_node};
  {
    const std::scoped_lock lock(mutex_);
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
  }
  // Estimated without the lock: threads that want the same at the same time find the same.
  const model::RoutingSpread spread = model::routing_spread(experts, groups_per_token, expert_parallel, ranks_per_node);
  const std::scoped_lock lock(mutex_);
  return known_.try_emplace(key, spread).first->second;
}

model::RoutingSpread spread_of(const Inputs& inputs) {
  const model::MixtureOfExperts& experts = inputs.architecture.experts;
  const std::int64_t groups = model::groups_per_token(inputs.plan, experts);
  const std::int64_t ranks = inputs.plan.parallelism.expert;
  const std::int64_t per_node = inputs.cluster.gpus_per_node / inputs.plan.parallelism.expert_tensor;
  const std::int64_t ranks_per_node = std::min(ranks, std::max<std::int64_t>(1, per_node));
  return inputs.routing ? inputs.routing->spread(experts, groups, ranks, ranks_per_node)
                        : model::routing_spread(experts, groups, ranks, ranks_per_node);
}

}  // namespace plumbline::sim
