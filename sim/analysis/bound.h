// The lower bound of a step: it cannot end before the busiest resource of any pipeline rank has done its work at the
// best rates of the profile. docs/costs.md has definitions and proof. In short, kernels of a rank run on one GPU, and
// none takes less of its SMs' time than KernelCost::best returns. Each kind of traffic of a rank is one queue, in which
// nothing takes less than its bytes at the highest rate. The optimizer's kernels follow a rank's slots. Waits, starts
// and everything else that the simulation adds only make a queue longer.
#pragma once

#include <cstddef>
#include <vector>

#include "sim/analysis/load.h"
#include "sim/predict/plan_work.h"

namespace plumbline::sim {

// Returns the load of each rank's slots and of the traffic that overlaps them. Requires the plan's parts and slots.
// serial_messages: a GPU sends one message at a time. Otherwise messages are left out, because the closed form lets
// them overlap each other, so they bound nothing there.
std::vector<Load> rank_loads(const PlanWork& work, bool serial_messages);

// Returns the seconds of the optimizer's kernels on a rank at best rates.
double optimizer_at_best(const PlanWork& work, std::size_t rank);

struct StepBound {
  double seconds = 0;
  std::size_t rank = 0;  // the first rank that reaches it
  Resource resource = Resource::compute;
};

StepBound step_bound(const PlanWork& work, const std::vector<Load>& loads);

}  // namespace plumbline::sim
