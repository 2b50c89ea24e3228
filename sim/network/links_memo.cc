#include "sim/network/links_memo.h"

#include <utility>

#include "model/plan/layout.h"
#include "sim/network/contention.h"
#include "sim/predict/inputs.h"

namespace plumbline::sim {

namespace {

model::Result<std::shared_ptr<const StepLinks>> make(const Inputs& inputs, const model::RoutingSpread& spread) {
  auto links = StepLinks::make(*inputs.fabric, inputs.plan, spread, inputs.every_link,
                               inputs.contention ? inputs.contention->find(inputs) : nullptr);
  if (!links) return tl::unexpected(links.error());
  return std::make_shared<const StepLinks>(std::move(*links));
}

}  // namespace

model::Result<std::shared_ptr<const StepLinks>> LinksMemo::links(const Inputs& inputs,
                                                                 const model::RoutingSpread& spread) {
  const model::Plan& plan = inputs.plan;
  const model::RankGroup group = model::exchange_group(plan.parallelism);
  const Key key = {
      plan.cluster.gpus,      plan.parallelism.pipeline,          group.ranks, group.stride, spread.nodes_per_token,
      spread.ranks_per_token, plan.cluster.placement.value_or("")};
  {
    const std::scoped_lock lock(mutex_);
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
  }
  // Made without the lock: threads that want the same at the same time make the same.
  auto links = make(inputs, spread);
  if (!links) return links;
  const std::scoped_lock lock(mutex_);
  return known_.try_emplace(key, *links).first->second;
}

model::Result<std::shared_ptr<const StepLinks>> links_of(const Inputs& inputs, const model::RoutingSpread& spread) {
  const bool alike = inputs.links && !inputs.contention && !inputs.every_link;
  return alike ? inputs.links->links(inputs, spread) : make(inputs, spread);
}

}  // namespace plumbline::sim
