// The value of a key for which a quantity reaches a target.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "model/base/error.h"

namespace plumbline::sim {

// The values that the key may take: all numbers from `low` to `high`, only the whole ones, or those of a list.
struct SolveRange {
  double low = 0, high = 0;
  bool whole = false;
  std::vector<double> values = {};  // rising; empty: no list
};

struct SolveSample {
  double x = 0;
  std::optional<double> value;  // nothing where the plan is infeasible
};

// Returns the quantity at each x. All are requested at once so that they can be computed in parallel.
using SolveFunction = std::function<model::Result<std::vector<std::optional<double>>>(const std::vector<double>& xs)>;

struct Solution {
  std::vector<SolveSample> samples;  // all samples, by rising x
  std::optional<SolveSample> exact;  // reaches the target within a millionth of it
  // The values on both sides of the target with no sample between them, where whole numbers or a list miss it, or where
  // the quantity jumps.
  std::optional<SolveSample> below, above;  // by x
  std::size_t crossings = 0;                // number of crossings of the target on the first grid
};

// Finds the crossing of the target nearest to `near`. It samples an even grid of `grid` values, even in the logarithm
// where the range spans more than a factor of 8. Then it closes in on the crossing: numbers by Brent's method, whole
// numbers by finer grids. Two crossings between neighbouring values of the grid are missed.
model::Result<Solution> solve(const SolveRange& range, double target, double near, const SolveFunction& function,
                              std::size_t grid = 17);

}  // namespace plumbline::sim
