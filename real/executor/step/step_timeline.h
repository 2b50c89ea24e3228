// From what a device recorded to the spans of a timeline, under the names that the simulator uses.
#pragma once

#include <vector>

#include "model/result/timeline.h"
#include "real/executor/step/rank_state.h"

namespace plumbline::real {

// Of one rank: slots, phases and kernels, messages, reductions and updates. `origin`: when the step began, on the
// device's clock.
model::Timeline rank_timeline(const RankState& rank, const std::vector<KernelRecord>& records, double origin);

// Those of several ranks as one, in the order of rank, stream, depth and start.
model::Timeline join(const std::vector<model::Timeline>& timelines);

}  // namespace plumbline::real
