#include "sim/network/links_memo.h"

#include <utility>

#include "model/plan/layout.h"
#include "sim/network/contention.h"
#include "sim/predict/inputs.h"
#include "topologies/placement.h"

namespace plumbline::sim {

namespace {

LinksMemo::Links make(const Inputs& inputs, const model::RoutingSpread& spread) {
  auto links = TRY(StepLinks::make(*inputs.fabric, inputs.plan, spread, inputs.every_link,
                                   inputs.contention ? inputs.contention->find(inputs) : nullptr));
  return std::make_shared<const StepLinks>(std::move(links));
}

}  // namespace

LinksMemo::Links LinksMemo::links(const Inputs& inputs, const model::RoutingSpread& spread) {
  const model::Plan& plan = inputs.plan;
  const model::RankGroup group = model::expert_group(plan.parallelism);
  const std::int64_t used = topologies::used_nodes(*inputs.fabric, plan).gpus_per_node;
  const Key key = {plan.cluster.gpus,
                   used,
                   plan.parallelism.pipeline,
                   group.ranks,
                   group.stride,
                   spread.nodes_per_token,
                   spread.ranks_per_token,
                   plan.cluster.placement.value_or("")};
  return known_.find(key, [&] { return make(inputs, spread); });
}

GroupLinks LinksMemo::group(const Inputs& inputs, const topologies::Fabric& fabric,
                            const topologies::Placement& placement, const GroupPattern& pattern) {
  const model::Plan& plan = inputs.plan;
  const GroupKey key = {plan.cluster.gpus, fabric.gpus_per_node(), plan.parallelism.pipeline,          pattern.ranks,
                        pattern.stride,    pattern.two_directions, plan.cluster.placement.value_or("")};
  return groups_.find(key, [&] {
    return group_links(fabric, placement, plan.parallelism.pipeline, pattern,
                       inputs.cluster.inter_node_bandwidth().value());
  });
}

model::Result<std::shared_ptr<const StepLinks>> links_of(const Inputs& inputs, const model::RoutingSpread& spread) {
  const bool shareable = inputs.links && !inputs.contention && !inputs.every_link;
  return shareable ? inputs.links->links(inputs, spread) : make(inputs, spread);
}

}  // namespace plumbline::sim
