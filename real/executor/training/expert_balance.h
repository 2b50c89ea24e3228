// Balancing of experts without an auxiliary loss (DeepSeek-V3, arXiv 2412.19437, section 2.1.2; arXiv 2408.15664):
// after each step the bias with which an expert is chosen moves by a fixed speed, down where it had more than the mean
// of all experts, up where it had less.
#pragma once

#include <cstdint>
#include <vector>

#include "model/base/error.h"
#include "real/executor/communicator.h"
#include "real/executor/training/training_step.h"

namespace plumbline::real {

// How evenly the experts of one layer were chosen in a step, over all ranks.
struct LayerLoad {
  std::int64_t layer = 0;    // of the model; -1: the prediction module
  std::vector<double> rows;  // [expert], a token per chosen expert
  double max_violation = 0;  // MaxVio of arXiv 2408.15664: largest load over the mean, less 1
  double variation = 0;      // standard deviation of the loads over their mean
};

// Sums what all ranks routed. layers: of the model, without the prediction module; experts: routed ones of a layer.
// Every rank calls it and gets the same: layers that routed anything, ascending, the prediction module last. Ranks of
// a tensor group that routed the same tokens all count them: ratios stay as they are. Infeasible error when a load is
// of no such layer or expert, or when another rank has failed.
model::Result<std::vector<LayerLoad>> sum_loads(const std::vector<ExpertLoad>& own, std::int64_t layers,
                                                std::int64_t experts, Communicator& communicator);

// The biases after a step in which the experts had these loads: equal everywhere, because the sums are.
std::vector<float> moved_bias(std::vector<float> bias, const LayerLoad& load, double speed);

// Moves the biases of the layers that this rank routed itself.
void update_biases(TrainingStep& step, const std::vector<ExpertLoad>& own, const std::vector<LayerLoad>& all,
                   double speed);

}  // namespace plumbline::real
