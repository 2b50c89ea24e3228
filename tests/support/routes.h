// Latency and bandwidth of the route between two GPUs of a fabric.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "topologies/fabric.h"

namespace plumbline::tests {

// Returns the sum of the latencies on the route in seconds; 0 when a is b.
inline double route_latency(const topologies::Fabric& fabric, std::int64_t a, std::int64_t b) {
  std::vector<topologies::LinkId> route;
  fabric.route(a, b, route);
  double seconds = 0;
  for (const topologies::LinkId id : route) seconds += fabric.link(id).latency;
  return seconds;
}

// Returns the smallest bandwidth on the route in B/s; infinity when a is b.
inline double route_bandwidth(const topologies::Fabric& fabric, std::int64_t a, std::int64_t b) {
  std::vector<topologies::LinkId> route;
  fabric.route(a, b, route);
  double slowest = std::numeric_limits<double>::infinity();
  for (const topologies::LinkId id : route) slowest = std::min(slowest, fabric.link(id).bandwidth);
  return slowest;
}

}  // namespace plumbline::tests
