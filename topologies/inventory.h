// The parts of a fabric, counted.
#pragma once

#include <cstdint>
#include <vector>

#include "model/economics/prices.h"
#include "topologies/fabric.h"

namespace plumbline::topologies {

struct LinkGroup {
  LinkKind kind = LinkKind::gpu_up;
  std::int64_t count = 0;
  double bandwidth = 0;  // of one link, B/s
};

// Returns the links by kind, in the order of LinkKind.
std::vector<LinkGroup> inventory(const Fabric& fabric);

// Returns the parts to buy for the fabric; none for a single node. A pair of links between switches is a cable. Where
// the wiring leaves ports of spines or cores free, the count of switches is that needed for the ports in use: such
// spines can be merged, with parallel cables to each.
model::FabricParts count_parts(const Fabric& fabric);

// Returns what one half of the cluster can send to the other, in B/s and one direction. It is the least of what the
// NICs of half the nodes, the links of half the groups of leaves to the spines, and those of half the pods to the cores
// carry. Inside a single node it is what half of its GPUs can send to the others; 0 for one GPU.
double bisection_bandwidth(const Fabric& fabric);

}  // namespace plumbline::topologies
