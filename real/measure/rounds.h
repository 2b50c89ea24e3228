// Takes the times of workloads, interleaved: all once, then all again in another order, so that a disturbance of the
// machine hits all alike and shows in the spread instead of in single cases.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "model/base/error.h"
#include "real/measure/runner.h"

namespace plumbline::real {

struct RoundOptions {
  std::size_t rounds = 15;         // behind a first one that counts for nothing
  std::optional<double> budget_s;  // ends earlier, but not before one round
  std::uint64_t seed = 1;          // of the order
};

// The samples of one case, in the order in which they were taken; a sequence may bring several a round.
struct Series {
  Subject subject;
  std::vector<double> seconds;
  double copy_rate = 0;  // bytes per second of what copied beside it, mean of the rounds
};

struct MeasureProgress {
  std::size_t round = 0, rounds = 0;  // complete ones that count
  std::size_t done = 0, total = 0;    // workloads, of all rounds
  bool round_ended = false;
};

// Called after each workload; false ends the measurement with what there is.
using MeasureObserver = std::function<bool(const MeasureProgress&, const std::vector<Series>&)>;

// One series for each case (Subject::place), in the order in which the workloads bring them; a time that the clock
// cannot tell from 0 is no sample, and a case without samples is left out. The error of a runner ends it.
model::Result<std::vector<Series>> measure_in_rounds(std::vector<RunnableWorkload>& workloads,
                                                     const RoundOptions& options, const MeasureObserver& observer);

}  // namespace plumbline::real
