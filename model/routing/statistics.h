// How uneven the experts and ranks of a plan are, and how biases balance them step by step.
#pragma once

#include <cstdint>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/plan/plan.h"
#include "model/routing/files.h"

namespace plumbline::model {

struct LoadSpread {
  double variation = 0;      // standard deviation over the mean
  double max_violation = 0;  // largest over the mean, less 1
};

struct RoutingStatistics {
  std::vector<LayerRows> loads;  // of the experts of each layer with experts, those that micro-batches share
  LoadSpread experts;            // of these loads, mean over layers
  LoadSpread ranks;              // of the rows of ranks in a layer and micro-batch, mean over both
  double dropped = 0;            // share of rows above the capacity of an expert
  struct Step {
    std::int64_t step = 0;  // 0: before the first change of a bias
    LoadSpread experts;
  };
  std::vector<Step> balance;  // of the first layer, from biases of 0 on; empty without balancing by biases
};

// Returns the statistics of a plan that states loads of experts and that make_layout() accepts, over layers and
// micro-batches of a fixed seed, with `steps` steps of balancing, of which 1, 2, 5, 10, 20, ... are listed.
RoutingStatistics routing_statistics(const Plan& plan, const Architecture& architecture, std::int64_t steps);

}  // namespace plumbline::model
