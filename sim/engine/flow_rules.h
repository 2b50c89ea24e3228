// The rules that both event loops apply to a flow: its rate on links that it shares with no other, and its validity.
#pragma once

#include <string>
#include <vector>

#include "sim/engine/loop.h"

namespace plumbline::sim {

// Returns the B/s of a flow that is alone on its links: min over crossings of bandwidth / times, and its limit.
double rate_alone(const Flow& flow, const std::vector<topologies::Link>& links);

// Returns why a flow cannot run on these links, or "" when it can. Causes are amounts that are negative, NaN or over
// 1e13 bytes, a limit of 0, more than 1e6 s, an unknown link, and a crossing of 0 times.
std::string find_fault(const Flow& flow, const std::vector<topologies::Link>& links);

}  // namespace plumbline::sim
