// Seconds of a stage's optimizer by part of the step, and the load that it puts on links.
#pragma once

#include <vector>

#include "model/program/data_parallel.h"
#include "model/program/program.h"
#include "sim/predict/cost_models.h"
#include "sim/step/step_end.h"

namespace plumbline::sim {

OptimizerTiming optimizer_timing(const model::Graph& optimizer, const std::vector<model::ShardUnit>& units,
                                 const CostModels& costs);

struct UnitLoad {  // seconds of a unit's collectives on their links
  model::CommunicationCost::LinkSeconds best, taken;
};
struct OptimizerLoad {
  std::vector<UnitLoad> reduce, gather;  // [unit]
  double kernels_at_best = 0;            // s, of the kernels after the slots
};
OptimizerLoad optimizer_load(const model::StageOptimizer& optimizer, const CostModels& costs);

}  // namespace plumbline::sim
