// Balancing of experts without an auxiliary loss (DeepSeek-V3, arXiv 2412.19437, section 2.1.2; arXiv 2408.15664).
// After each step the routing bias of an expert moves by a fixed amount: down where its load was above the mean of all
// experts, up where it was below.
#pragma once

#include <cstdint>
#include <vector>

#include "model/base/error.h"
#include "real/executor/communicator.h"
#include "real/executor/training/training_step.h"

namespace plumbline::real {

// How evenly the experts of one layer were chosen in a step, over all ranks.
struct LayerLoad {
  std::int64_t layer = 0;    // layer of the model; -1: the multi-token prediction module
  std::vector<double> rows;  // [expert]; a token counts once for each expert that it chose
  double max_violation = 0;  // MaxVio of arXiv 2408.15664: max(load) / mean(load) - 1
  double variation = 0;      // standard deviation of the loads divided by their mean
};

// Sums the loads of all ranks. `layers` counts the model's layers without the prediction module, `experts` the routed
// experts of a layer. Every rank calls it and gets the same: layers with any load, ascending, the prediction module
// last. Tokens that several ranks of a tensor-parallel group route count several times, which keeps the ratios.
// Infeasible error when a load names another layer or expert, or when another rank has failed.
model::Result<std::vector<LayerLoad>> sum_loads(const std::vector<ExpertLoad>& own, std::int64_t layers,
                                                std::int64_t experts, Communicator& communicator);

// Returns the biases after a step with these loads; equal on all ranks, because the summed loads are.
std::vector<float> moved_bias(std::vector<float> bias, const LayerLoad& load, double speed);

// Moves the biases of the layers whose tokens this rank routed.
void update_biases(TrainingStep& step, const std::vector<ExpertLoad>& own, const std::vector<LayerLoad>& all,
                   double speed);

}  // namespace plumbline::real
