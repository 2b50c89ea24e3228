// The value of a plan's key for which a quantity of the prediction reaches a target.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "model/base/error.h"
#include "model/plan/plan.h"
#include "model/result/result.h"
#include "sim/predict/simulate.h"
#include "sim/whatif/solve.h"
#include "sim/whatif/sweep.h"

namespace plumbline::sim {

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
  std::string metric;  // name
  double value = 0;
  std::function<std::optional<double>(const model::StepResult&)> read;  // nothing where a result lacks it
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
