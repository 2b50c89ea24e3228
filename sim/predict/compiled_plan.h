// What every simulation of a plan begins with: its layout, its step program and its cost functions.
#pragma once

#include "model/base/error.h"
#include "model/plan/layout.h"
#include "model/program/program.h"
#include "sim/predict/cost_models.h"

namespace plumbline::sim {

struct CompiledPlan {
  model::Layout layout;
  model::StepProgram program;
  CostModels costs;
};

// Infeasible when the plan's degrees do not divide; errors of cost_models().
model::Result<CompiledPlan> compile_plan(const Inputs& inputs);

}  // namespace plumbline::sim
