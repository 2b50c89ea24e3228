// What the command line of `sweep` says, and its three questions: a grid of points (sweep.cc), which input matters
// most, and which value reaches a target.
#pragma once

#include <string>
#include <vector>

#include "cli/sweep_result.h"
#include "cli/verb.h"
#include "model/base/error.h"
#include "sim/predict/simulate.h"

namespace plumbline::cli {

struct SweepArguments {
  PlanArguments plan;
  std::vector<std::string> over;
  std::string fidelity = "step";
  SweepLimits limits;
  std::string json, csv, svg;
  bool tornado = false;
  std::string solve, target;  // KEY, and METRIC=VALUE
};

// Each returns the exit code.
model::Result<int> run_tornado(const SweepArguments& arguments, sim::Fidelity fidelity);
model::Result<int> run_solve(const SweepArguments& arguments, sim::Fidelity fidelity);

// A point of the plan with further overrides, after those of --set. Errors about a key of the overrides name --over.
model::Result<sim::Inputs> inputs_with(const SweepArguments& arguments, const std::vector<std::string>& overrides);

}  // namespace plumbline::cli
