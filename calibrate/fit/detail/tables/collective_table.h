// Fits NCCL's collectives on one node: n GPUs, D bytes, bus factor f, q = n - 1, p = 2 for an all-reduce and else 1.
//   ring:   the least of base + p q t_step + D f / rate over LL, LL128 and Simple
//   direct: the same with a line of its own for each and q steps, for all-to-all
//   switch: base + 8/9 (1 + 1/n) D / rate, for an all-reduce of more than two GPUs; the rate is that of eight
// Simple moves a rank's own piece out of place: D / (n copy_bandwidth) more. These are the lines of
// model/cost/collective_cost.h with a launch of 0 and latency scales of 1.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "calibrate/components/rows.h"
#include "calibrate/fit/held_out.h"

namespace plumbline::calibrate {

struct FittedNumber {
  double value = 0;      // in SI
  double deviation = 0;  // relative standard deviation
};

struct CollectiveLine {
  FittedNumber base, hop, rate;                  // s, s, B/s on the bus
  std::vector<std::vector<double>> correlation;  // of their errors; none of a line in the switch
};

struct CollectiveTableFit {
  // In order of base latency: LL, LL128, Simple. A line that is the fastest nowhere is not identified: nullopt.
  std::array<std::optional<CollectiveLine>, 3> ring, direct;
  FittedNumber copy_bandwidth;
  std::optional<CollectiveLine> in_switch;  // without a time per step
  HeldOut held_out;
};

// Sizes that several versions measured enter as their median. Rows that are slower than twice their bytes, or far above
// both neighbors, are left out of the fit. `switch_sums`: whether the switch sums. Requires rows.
CollectiveTableFit fit_collective_table(const std::vector<CollectiveRow>& rows, const FitMachine& machine,
                                        bool switch_sums);

}  // namespace plumbline::calibrate
