// Waiting for the slowest rank. Expert rows differ between the ranks of an expert-parallel group, and
// every exchange begins with a meeting of all of them, so the group advances at the pace of whoever is
// slowest from meeting to meeting. The wait is found by running the whole group, not by a formula.
#pragma once

#include <vector>

#include "model/program.h"
#include "sim/segment_time.h"

namespace plumbline::sim {

struct GroupRun {
  double seconds = 0;         // of one slot, once the ranks are coupled
  std::vector<double> waits;  // per segment: mean over ranks and repetitions of the wait in the meeting
};

// Runs `repetitions` consecutive slots of one template on `ranks` ranks whose rows in every layer and
// slot are drawn from a normal distribution with mean 1 and standard deviation `imbalance`.
GroupRun run_group(const model::SlotTemplate& slot, const std::vector<SegmentTime>& times, std::int64_t ranks,
                   double imbalance, std::uint64_t seed);

}  // namespace plumbline::sim
