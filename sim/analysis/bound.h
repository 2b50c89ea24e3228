// A step can end no earlier than the busiest resource of any pipeline rank has done its work at the best rates of the
// profile. Definitions and proof: docs/costs.md. In short: kernels of a rank run on one GPU, and none takes less of its
// SMs' time than KernelCost::best says; each kind of traffic of a rank is one queue, in which nothing takes less than
// its bytes at the highest rate; the optimizer's kernels follow a rank's slots. Waits, starts and whatever else the
// simulation adds only make a queue longer.
#pragma once

#include <cstddef>
#include <vector>

#include "sim/analysis/load.h"
#include "sim/predict/plan_work.h"

namespace plumbline::sim {

// Slots of each rank, and the traffic beside them. The plan's parts and slots are found. serial_messages: a GPU sends
// one message at a time, else messages are left out; the closed form lets them pass each other, so they bound nothing
// there.
std::vector<Load> rank_loads(const PlanWork& work, bool serial_messages);

// The optimizer's kernels on a rank at best rates, s.
double optimizer_at_best(const PlanWork& work, std::size_t rank);

struct StepBound {
  double seconds = 0;
  std::size_t rank = 0;  // the first that carries it
  Resource resource = Resource::compute;
};

StepBound step_bound(const PlanWork& work, const std::vector<Load>& loads);

}  // namespace plumbline::sim
