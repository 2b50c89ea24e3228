// Fits the all-reduce of an inference engine on one node, one-shot and two-shot, to the lines of
// model/cost/collective_cost.h: n GPUs read D bytes in
//   one-shot: base + (n - 1) rank_time + (n - 1) D / rate
//   two-shot: base + (n - 1) rank_time + 2 (n - 1)/n D / rate
// of which the faster one counts.
#pragma once

#include <string>
#include <vector>

#include "calibrate/components/rows.h"
#include "calibrate/fit/held_out.h"

namespace plumbline::calibrate {

struct CustomReduceFit {
  struct Line {
    std::vector<double> values, deviations;        // base, rank_time, rate: in SI, and relative
    std::vector<std::vector<double>> correlation;  // of their errors
  };
  Line one_shot, two_shot;
  HeldOut held_out;
};

// Requires rows.
CustomReduceFit fit_custom_reduce_table(const std::vector<CollectiveRow>& rows, const FitMachine& machine);

}  // namespace plumbline::calibrate
