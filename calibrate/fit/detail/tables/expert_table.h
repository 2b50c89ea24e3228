// Fits the expert block of one software, kernel and format, forward: two grouped GEMMs with what serving does around
// them. With rows m of each expert, hidden H, intermediate F, weights of b bytes, R rows on the rank, T tokens, top k:
//   t = launch + sum over experts with rows of max(6 ceil(m / 128) 128 H F / rate, 3 H F b / weight_bandwidth)
//       + R (2 H + 3 F) 2 B / activation_bandwidth + T k H 2 B / entry_bandwidth + experts * per_expert
// The rate stays below that of dense GEMMs, of which a profile takes the ratio: alone, rate and activation_bandwidth
// stand in for each other. Only balanced rows are used, because the tables lack the rows of each expert of the others.
#pragma once

#include <vector>

#include "calibrate/components/rows.h"
#include "calibrate/fit/held_out.h"

namespace plumbline::calibrate {

struct ExpertTableFit {
  double rate = 0, rate_deviation = 0;                          // FLOP/s of the whole GPU
  double weight_bandwidth = 0, weight_bandwidth_deviation = 0;  // B/s at which weights are read
  std::size_t left_series = 0;                                  // series that a badly chosen kernel disturbs throughout
  HeldOut held_out;
};

// Requires balanced rows among those of one software, kernel and format. `dense_rate`: FLOP/s of dense GEMMs.
ExpertTableFit fit_expert_table(const std::vector<ExpertRow>& rows, const FitMachine& machine, double dense_rate);

}  // namespace plumbline::calibrate
