// What a fabric is made of, in numbers.
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

// The kinds of links that are there, in the order of LinkKind.
std::vector<LinkGroup> inventory(const Fabric& fabric);

// What a buyer of the fabric needs; nothing for a single node. A pair of links between switches is a cable. Where the
// wiring leaves ports of spines or cores free, as many switches are counted as have the ports that are taken: a buyer
// joins such spines to fewer ones, with parallel cables to each.
model::FabricParts count_parts(const Fabric& fabric);

// What one half of the cluster can send to the other at a time, B/s in one direction: the smallest of what the NICs of
// half the nodes, the links of half the groups of leaves towards the spines and those of half the pods towards the
// cores carry. Inside a single node: what half of its GPUs can send to the others; 0 for one GPU.
double bisection_bandwidth(const Fabric& fabric);

}  // namespace plumbline::topologies
