// The value of a plan's key for which a quantity of the prediction reaches a target.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/plan/plan.h"
#include "model/result/result.h"
#include "sim/predict/simulate.h"
#include "sim/whatif/sweep.h"

namespace plumbline::sim {

struct Sample {
  double x = 0, y = 0;
};

struct Root {
  Sample at;     // the smallest |y| that was found
  Sample other;  // the nearest x with the other sign; at a jump over zero, the other side of the jump
};

// Returns a root by Brent's method (R. P. Brent, Algorithms for Minimization without Derivatives, 1973, chapter 4):
// inverse quadratic interpolation and secants where they converge, else bisection. Requires ends of different sign, or
// one that is zero. Ends when |y| <= y_tolerance, or when the two sides are closer than x_tolerance times x. Returns
// the first error of `f`.
model::Result<Root> find_root(const std::function<model::Result<double>(double)>& f, Sample a, Sample b,
                              double x_tolerance, double y_tolerance);

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

// The properties of a key, before any simulation.
struct SolveKey {
  std::string key;
  bool whole = false;           // whole numbers only
  std::optional<double> value;  // in the plan as it is; nothing where it is not set
  SolveRange range;
};

// Returns the key's type, its present value and its range. The range is `over` (KEY=RANGE) if given, else an eighth to
// eight times the present value within the key's bounds, in powers of 2 for numbers of GPUs and degrees. Errors
// (input): a key that is unknown, not a number, or without both a value and a range.
model::Result<SolveKey> solve_key(const std::string& key, const Inputs& inputs, const std::optional<std::string>& over);
std::string value_text(const SolveKey& key, double x);  // for printing

struct SolveTarget {
  std::string metric;  // name, with `serving.` of deployments
  double value = 0;
  std::function<std::optional<double>(const SweepPoint&)> read;  // nothing where a point lacks it
};

struct SolveResult {
  model::Plan plan;  // the plan as it is
  Fidelity fidelity = Fidelity::step;
  SolveKey key;
  SolveTarget target;
  std::optional<double> present;  // the metric of the plan as it is
  Solution solution;
  std::map<double, SweepPoint> points;  // feasible points by the key's value, including the plan as it is
  bool found() const { return solution.exact || solution.below; }
};

// Simulates values of `key` in the range of solve_key() until the target is reached or enclosed. Errors: those of
// solve_key() and sweep(), and a metric that the plan's prediction lacks (input).
model::Result<SolveResult> solve(const std::string& key, const std::optional<std::string>& over, SolveTarget target,
                                 const ChangedInputs& changed, Fidelity fidelity);

}  // namespace plumbline::sim
