// For which value of a key a quantity reaches a target.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "model/base/error.h"

namespace plumbline::sim {

// The values that the key may take: all numbers from `low` to `high`, the whole ones among them, or those of a list.
struct SolveRange {
  double low = 0, high = 0;
  bool whole = false;
  std::vector<double> values = {};  // rising; empty: no list
};

struct SolveSample {
  double x = 0;
  std::optional<double> value;  // nothing where the plan cannot be
};

// The quantity at each x, all at once, so that they can be computed beside each other.
using SolveFunction = std::function<model::Result<std::vector<std::optional<double>>>(const std::vector<double>& xs)>;

struct Solution {
  std::vector<SolveSample> samples;  // everything that was tried, by rising x
  std::optional<SolveSample> exact;  // the target is reached, to a millionth of it
  // Values on both sides of the target with nothing tried between them: whole numbers and lists that miss it, or a
  // jump.
  std::optional<SolveSample> below, above;  // by x
  std::size_t crossings = 0;                // of the target along what was tried first
};

// Looks for crossings of the target on an even grid of `grid` values (evenly in the logarithm where the range spans
// more than a factor of 8), takes the one nearest to `near`, and closes in on it: numbers by Brent's method, whole
// numbers by finer grids. A target that is crossed and crossed back between two values of the grid is not seen.
model::Result<Solution> solve(const SolveRange& range, double target, double near, const SolveFunction& function,
                              std::size_t grid = 17);

}  // namespace plumbline::sim
