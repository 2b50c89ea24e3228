#include "sim/network/contention.h"

#include <algorithm>
#include <utility>

#include "model/base/bytes.h"
#include "model/plan/layout.h"
#include "sim/network/simgrid_loop.h"
#include "sim/network/traffic.h"
#include "sim/predict/inputs.h"
#include "sim/predict/memos.h"
#include "topologies/fabric.h"

namespace plumbline::sim {
namespace {

bool may_contend(const Inputs& inputs) {
  if (!inputs.fabric || inputs.plan.parallelism.expert == 1) return false;
  const bool contiguous = inputs.plan.cluster.placement.value_or("contiguous") == "contiguous";
  const topologies::FabricShape& shape = *inputs.fabric;
  return !contiguous || shape.oversubscription > 1 || !shape.factors.empty();
}

std::string key_of(const Inputs& inputs) {
  const model::RankGroup group = model::expert_group(inputs.plan.parallelism);
  return model::to_bytes(inputs.plan.parallelism.pipeline, group.ranks, group.stride, spread_of(inputs).nodes_per_token,
                         inputs.plan.cluster.placement.value_or("contiguous"), inputs.plan.cluster.gpus,
                         topologies::used_nodes(*inputs.fabric, inputs.plan));
}

// Records when the last flow of each group ends.
class GroupEnds final : public Handler {
 public:
  GroupEnds(const Loop& loop, std::size_t groups) : loop_(loop), ends_(groups, 0) {}
  void handle(std::uint32_t, std::uint64_t group) override { ends_[group] = loop_.now(); }
  double seconds(std::size_t group) const { return to_seconds(ends_[group]); }

 private:
  const Loop& loop_;
  std::vector<Time> ends_;
};

std::vector<Transfer> over_the_network(std::vector<Transfer> transfers) {
  std::erase_if(transfers, [](const Transfer& transfer) { return transfer.leg != network_leg; });
  return transfers;
}

model::Result<Contention> simulate_all(const topologies::Fabric& fabric, const std::vector<TrafficPattern>& patterns) {
  auto network = TRY(SimGridNetwork::make(fabric.links()));
  std::vector<std::vector<TrafficFlow>> flows;
  Contention result;  // at first the seconds of each group alone
  for (const TrafficPattern& pattern : patterns) {
    auto transfers = TRY(transfers_of(fabric, pattern));
    const std::vector<Transfer> outside = over_the_network(std::move(transfers));
    result.push_back(bottleneck_seconds(fabric, outside));
    flows.push_back(footprint_flows(fabric, outside));
  }
  SimGridLoop loop(network);
  GroupEnds ends(loop, patterns.size());
  for (std::size_t group = 0; group < flows.size(); ++group)
    for (const TrafficFlow& flow : flows[group])
      loop.flow({.footprint = &flow.footprint, .bytes = flow.bytes}, {&ends, 0, 0, group});
  loop.run();
  for (std::size_t group = 0; group < result.size(); ++group)
    result[group] = result[group] > 0 ? std::max(1.0, ends.seconds(group) / result[group]) : 1;
  return result;
}

}  // namespace

model::Result<void> ContentionTable::add(const Inputs& inputs) {
  if (!may_contend(inputs)) return {};
  std::string key = key_of(inputs);
  if (known_.contains(key)) return {};
  const auto fabric =
      TRY(topologies::Fabric::make(topologies::used_nodes(*inputs.fabric, inputs.plan), inputs.plan.cluster.gpus));
  const auto placement = TRY(topologies::placement_of(inputs.plan, fabric.gpus_per_node()));
  model::Result<Contention> contention;
  TRY(on_own_stack(fabric.links().size(), [&] {
    contention = simulate_all(fabric, expert_patterns(inputs.plan, placement, spread_of(inputs)));
  }));
  known_.emplace(std::move(key), TRY(std::move(contention)));
  return {};
}

const Contention* ContentionTable::find(const Inputs& inputs) const {
  if (!may_contend(inputs)) return nullptr;
  const auto found = known_.find(key_of(inputs));
  return found == known_.end() ? nullptr : &found->second;
}

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
  const std::string key = model::to_bytes(plan.cluster.gpus, topologies::used_nodes(*inputs.fabric, plan).gpus_per_node,
                                          plan.parallelism.pipeline, group.ranks, group.stride, spread.nodes_per_token,
                                          spread.ranks_per_token, plan.cluster.placement);
  return known_.find(key, [&] { return make(inputs, spread); });
}

GroupLinks LinksMemo::group(const Inputs& inputs, const topologies::Fabric& fabric,
                            const topologies::Placement& placement, const GroupPattern& pattern) {
  const model::Plan& plan = inputs.plan;
  const std::string key = model::to_bytes(plan.cluster.gpus, fabric.gpus_per_node(), plan.parallelism.pipeline, pattern,
                                          plan.cluster.placement);
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
