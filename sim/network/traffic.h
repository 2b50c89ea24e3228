// Bytes between GPUs, evaluated in two ways: as the load of each link, which gives a closed form, and as one flow per
// leg over the footprint of all its routes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/engine/loop.h"
#include "topologies/fabric.h"

namespace plumbline::sim {

struct Transfer {
  std::int64_t from = 0, to = 0;  // GPUs
  double bytes = 0;
  std::uint8_t leg = 0;  // transfers of one leg are alike: same kind of link, same step of the pattern
};

// Returns the bytes over each link, by LinkId.
std::vector<double> link_loads(const topologies::Fabric& fabric, std::span<const Transfer> transfers);

// Returns max over links of load / bandwidth in seconds. This is a lower bound for any sharing. It is exact when all
// transfers of the most loaded link have one size, start together and share it with no other traffic.
double bottleneck_seconds(const topologies::Fabric& fabric, std::span<const Transfer> transfers);

// A flow with its own footprint, which must not move while the flow runs.
struct TrafficFlow {
  Footprint footprint;
  double bytes = 0;
};

// Returns one flow per leg whose transfers all have one size. It crosses each link as often as their routes do, and so
// takes the same share of the links. Transfers of other legs stay separate flows.
std::vector<TrafficFlow> footprint_flows(const topologies::Fabric& fabric, std::span<const Transfer> transfers);

}  // namespace plumbline::sim
