// For which value of a key of the plan a quantity of its prediction reaches a target.
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

// What is known of a key before anything is tried.
struct SolveKey {
  std::string key;
  bool whole = false;           // whole numbers only
  std::optional<double> value;  // in the plan as it is; nothing where it says none
  SolveRange range;
};

// The key's type, its present value, and where to look: `over` (KEY=RANGE) if given, else an eighth to eight times
// the present value, within the key's bounds; for numbers of GPUs and degrees powers of 2. Errors (input): an unknown
// key, one that is no number, one without a value and without a range.
model::Result<SolveKey> solve_key(const std::string& key, const Inputs& inputs, const std::optional<std::string>& over);
std::string value_text(const SolveKey& key, double x);  // for people

struct SolveTarget {
  std::string metric;  // its name
  double value = 0;
  std::function<std::optional<double>(const model::StepResult&)> read;  // nothing where a result lacks it
};

struct SolveResult {
  model::Plan plan;  // as it is
  Fidelity fidelity = Fidelity::step;
  SolveKey key;
  SolveTarget target;
  std::optional<double> present;  // the metric in the plan as it is
  Solution solution;
  std::map<double, SweepPoint> points;  // that can be, by the key's value; the plan as it is among them
  bool found() const { return solution.exact || solution.below; }
};

// Simulates values of `key` in the range that solve_key() gives until the target is reached or enclosed. Errors: those
// of solve_key() and sweep(), and a metric that the prediction of the plan does not give (input).
model::Result<SolveResult> solve(const std::string& key, const std::optional<std::string>& over, SolveTarget target,
                                 const ChangedInputs& changed, Fidelity fidelity);

}  // namespace plumbline::sim
