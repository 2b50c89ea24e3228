// Converts the records of a device to the spans of a timeline, under the names that the simulator uses.
#pragma once

#include <vector>

#include "model/result/timeline.h"
#include "real/executor/step/rank_state.h"

namespace plumbline::real {

// Returns the timeline of one rank: slots, phases and kernels, messages, reductions and updates. `origin` is the step's
// beginning on the device's clock, in seconds.
model::Timeline rank_timeline(const RankState& rank, const std::vector<KernelRecord>& records, double origin);

// Joins the timelines of several ranks, in the order of rank, stream, depth and start.
model::Timeline join(const std::vector<model::Timeline>& timelines);

}  // namespace plumbline::real
