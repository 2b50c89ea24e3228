// Bytes between GPUs, read in two ways: the load of each link with its closed form, and one flow per hop over the
// footprint of all its routes.
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
  std::uint8_t leg = 0;  // the transfers of one hop are alike: same kind of link, same step of the pattern
};

// Bytes over each link, by LinkId.
std::vector<double> link_loads(const topologies::Fabric& fabric, std::span<const Transfer> transfers);

// max over links of load / bandwidth: a lower bound whatever the sharing, and the exact time when all transfers of the
// most loaded link are of one size, start together and meet no other traffic.
double bottleneck_seconds(const topologies::Fabric& fabric, std::span<const Transfer> transfers);

// A flow together with its links, which must stay where they are while it runs.
struct TrafficFlow {
  Footprint footprint;
  double bytes = 0;
};

// One flow per hop whose transfers are all of one size: it crosses each link as often as their routes do, so it takes
// from the links what they would take. The transfers of other hops stay flows of their own.
std::vector<TrafficFlow> footprint_flows(const topologies::Fabric& fabric, std::span<const Transfer> transfers);

}  // namespace plumbline::sim
