// For which value of a key a quantity reaches a target, as `sweep --solve` asks.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "model/base/error.h"
#include "model/plan/plan.h"
#include "sim/predict/simulate.h"
#include "sim/whatif/solve.h"
#include "sim/whatif/sweep.h"

namespace plumbline::cli {

// What is known of a key before anything is tried.
struct SolveKey {
  std::string key;
  bool whole = false;           // whole numbers only
  std::optional<double> value;  // in the plan as it is; nothing where it says none
  sim::SolveRange range;
};

// The key's type, its present value, and where to look: `over` (KEY=RANGE) if given, else an eighth to eight times
// the present value, within the key's bounds; for numbers of GPUs and degrees powers of 2. Errors (input): an unknown
// key, one that is no number, one without a value and without a range.
model::Result<SolveKey> solve_key(const std::string& key, const sim::Inputs& inputs,
                                  const std::optional<std::string>& over);
std::string override_of(const SolveKey& key, double x);  // KEY=VALUE
std::string value_text(const SolveKey& key, double x);   // for people

struct SolveTarget {
  std::string metric;
  double value = 0;
};
model::Result<SolveTarget> parse_target(std::string_view text);  // METRIC=VALUE

struct SolveResult {
  std::string model;
  model::Plan plan;  // as it is
  sim::Fidelity fidelity = sim::Fidelity::step;
  SolveKey key;
  SolveTarget target;
  std::optional<double> present;  // the metric in the plan as it is
  sim::Solution solution;
  std::map<double, sim::SweepPoint> points;  // that can be, by the key's value; the plan as it is among them
  bool found() const { return solution.exact || solution.below; }
};

std::string solve_text(const SolveResult& result, bool colour);
std::string solve_json(const SolveResult& result);

}  // namespace plumbline::cli
