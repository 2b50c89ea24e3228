// Seconds of the operators of each stage's optimizer, by what they are part of.
#pragma once

#include <vector>

#include "model/program/program.h"
#include "sim/predict/cost_models.h"
#include "sim/step/step_end.h"

namespace plumbline::sim {

OptimizerTiming optimizer_timing(const model::Graph& optimizer, const std::vector<model::SynchronisationUnit>& units,
                                 const CostModels& costs);
std::vector<OptimizerTiming> optimizer_timings(const model::StepProgram& program, const CostModels& costs);

}  // namespace plumbline::sim
