// The effect of the wiring on the collectives of dense groups: the members that share a node, and the slowdown of the
// rings between nodes, because the rings of all groups run at once and share links.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/network/step_links.h"
#include "topologies/fabric.h"
#include "topologies/placement.h"

namespace plumbline::sim {

// Groups of one kind that together hold every rank. A stage has `block` consecutive ranks, and a group takes `ranks` of
// them, `stride` apart. With two directions a group also takes as many ranks of the stage's other copy: pipeline ranks
// p and P - 1 - p hold the same stage.
struct GroupPattern {
  std::int64_t ranks = 1, stride = 1;  // of the whole group
  bool two_directions = false;
};

struct GroupLinks {
  std::int64_t ranks_per_node = 1;  // members on a node, on average, rounded
  // Seconds of the most loaded link over those of a NIC that carries the same ring alone; at least 1.
  double slowdown = 1;
  // [pipeline rank]: the links of the group that its representative GPU is in. Over the network these are the links of
  // that GPU and the most loaded one of the rank's block, loaded by the rings that start in the block; inside the node
  // those to and from the other members.
  std::shared_ptr<const std::vector<RankLinks>> ranks;
};

// Bytes that a GPU sends in the collectives of one or several operators, which take the links one after the other.
struct WireLoad {
  std::int32_t group = -1;  // index in CostModels::groups, of the operator that sends most; -1: none
  double network_bytes = 0, node_bytes = 0;
};

// Returns the links of a group. Each ring visits the nodes of its group in the order of the members, over as many NICs
// of a node as the group has members there, with one byte per NIC. `pipeline` blocks of ranks fill the placement.
// nic_bandwidth (B/s) is one GPU's share of its node's NICs.
GroupLinks group_links(const topologies::Fabric& fabric, const topologies::Placement& placement, std::int64_t pipeline,
                       const GroupPattern& pattern, double nic_bandwidth);

}  // namespace plumbline::sim
