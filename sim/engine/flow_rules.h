// What both loops know about a flow: its rate on links of its own, and whether it makes sense.
#pragma once

#include <string>
#include <vector>

#include "sim/engine/loop.h"

namespace plumbline::sim {

// B/s of a flow's bytes on links that nobody else uses: min over crossings of bandwidth / times, and its limit.
double rate_alone(const Flow& flow, const std::vector<topologies::Link>& links);

// Why a flow cannot run on these links, "" when it can: amounts that are negative, NaN or over 1e13 bytes, a limit of
// 0, more than 1e6 s, a link that is not there, a crossing of no times.
std::string find_fault(const Flow& flow, const std::vector<topologies::Link>& links);

}  // namespace plumbline::sim
