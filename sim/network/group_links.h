// What the wiring leaves to the collectives of dense groups: how many members share a node, and how far the rings
// between nodes fall behind the NICs' line rate because the rings of all groups, which run at once, share links.
#pragma once

#include <cstdint>

#include "topologies/fabric.h"
#include "topologies/placement.h"

namespace plumbline::sim {

// Groups of one kind that together hold every rank. A stage's ranks are `block` in a row; a group takes
// `ranks` of them that are `stride` apart, and under two directions as many of the stage's other holder: that of
// pipeline rank p and of pipeline rank P - 1 - p.
struct GroupPattern {
  std::int64_t ranks = 1, stride = 1;  // of the whole group
  bool two_directions = false;
};

struct GroupLinks {
  std::int64_t ranks_per_node = 1;  // members on a node, on average, rounded
  // At least 1: seconds of the most loaded link over those of a NIC that carries the same ring alone.
  double slowdown = 1;
};

// Each ring goes through the nodes of its group in the order in which the members come, over as many NICs of a node as
// it has members there; one byte per NIC. `pipeline` blocks of ranks fill the placement; nic_bandwidth (B/s) is one
// GPU's share of its node's NICs.
GroupLinks group_links(const topologies::Fabric& fabric, const topologies::Placement& placement, std::int64_t pipeline,
                       const GroupPattern& pattern, double nic_bandwidth);

}  // namespace plumbline::sim
