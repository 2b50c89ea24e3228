// Seconds of the operators of a stage's optimizer, by what they are part of.
#pragma once

#include <vector>

#include "model/program/program.h"
#include "model/program/stage_optimizer.h"
#include "sim/predict/cost_models.h"
#include "sim/step/step_end.h"

namespace plumbline::sim {

OptimizerTiming optimizer_timing(const model::Graph& optimizer, const std::vector<model::ShardUnit>& units,
                                 const CostModels& costs);

struct UnitLoad {  // collectives of a unit on their links, s
  model::CommunicationCost::LinkSeconds best, taken;
};
struct OptimizerLoad {
  std::vector<UnitLoad> reduce, gather;  // [unit]
  double kernels_at_best = 0;            // s, of those that follow the slots
};
OptimizerLoad optimizer_load(const model::StageOptimizer& optimizer, const CostModels& costs);

}  // namespace plumbline::sim
