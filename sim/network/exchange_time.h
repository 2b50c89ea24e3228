// How long flows take on SimGrid.
#pragma once

#include <span>

#include "sim/network/simgrid_loop.h"
#include "sim/network/traffic.h"

namespace plumbline::sim {

// Seconds until the last flow of `timed` has ended when `timed` and `beside` start together. A link that fails under a
// flow of `timed` is an infeasible error that names it.
model::Result<double> simulate_seconds(SimGridNetwork& network, std::span<const TrafficFlow> timed,
                                       std::span<const TrafficFlow> beside, std::span<const LinkChange> changes = {});

}  // namespace plumbline::sim
