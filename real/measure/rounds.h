// Times workloads in interleaved rounds: all once, then all again in another order. A disturbance of the machine thus
// affects all cases alike and appears in their spread, not as an error of single cases.
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
  std::size_t rounds = 15;         // measured rounds, after a warm-up round
  std::optional<double> budget_s;  // seconds after which it ends, but not before one round
  std::uint64_t seed = 1;          // of the workloads' order
};

// The samples of one case, in the order in which they were taken; a sequence may yield several in a round.
struct Series {
  Subject subject;
  std::vector<double> seconds;
  double copy_rate = 0;  // bytes per second of the concurrent copy, mean of the rounds
};

struct MeasureProgress {
  std::size_t round = 0, rounds = 0;  // measured rounds: complete, planned
  std::size_t done = 0, total = 0;    // workloads over all rounds
  bool round_ended = false;
};

// Called after each workload; returning false ends the measurement with the samples so far.
using MeasureObserver = std::function<bool(const MeasureProgress&, const std::vector<Series>&)>;

// Returns one series for each case (Subject::place), in the order of the workloads. A time below the resolution of the
// clock is not a sample, and a case without samples is left out. The first error of a runner is returned.
model::Result<std::vector<Series>> measure_in_rounds(std::vector<RunnableWorkload>& workloads,
                                                     const RoundOptions& options, const MeasureObserver& observer);

// --- Order statistics of the samples of a time; single disturbed samples hardly change them ---

struct Spread {
  double min = 0, p10 = 0, p50 = 0, p90 = 0;
  double mad = 0;  // median of the absolute deviations from p50
};

// Interpolates quantiles linearly between the two nearest samples. Requires at least one sample.
Spread spread_of(std::vector<double> samples);

}  // namespace plumbline::real
