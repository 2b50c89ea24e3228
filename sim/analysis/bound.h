// The lower bound of a step: it cannot end before the busiest resource of any pipeline rank has done its work at the
// best rates of the profile. docs/costs.md has definitions and proof. In short, kernels of a rank run on one GPU, and
// none takes less of its SMs' time than KernelCost::best returns. Each kind of traffic of a rank is one queue, in which
// nothing takes less than its bytes at the highest rate. The optimizer's kernels follow a rank's slots. Waits, starts
// and everything else that the simulation adds only make a queue longer.
#pragma once

#include <cstddef>
#include <vector>

#include "model/schedule/schedule_table.h"
#include "sim/analysis/load.h"
#include "sim/predict/plan_work.h"

namespace plumbline::sim {

// The causes of a pipeline rank's idle time between its slots. Each is removed in turn from the schedule's recurrence.

// The parts add up to the idle time that was split. None is negative unless that is.
struct IdleTime {             // s
  double point_to_point = 0;  // removed if messages between stages took no time
  double uneven_stages = 0;   // removed if every op also took the mean of its kind
  double fill_and_drain = 0;  // the rest: dependencies of the schedule with equal stages
  double bubble() const { return uneven_stages + fill_and_drain; }
};

// Splits `idle` seconds of a rank up to the end of its pipeline. Each slot took class_seconds of its slot class and a
// message between ranks `p2p` seconds. With R(p2p, seconds) the rank's idle time in the recurrence:
//   point_to_point = R(p2p, class_seconds) - R(0, class_seconds)
//   uneven_stages  = R(0, class_seconds) - R(0, means)
// each between 0 and what is left of `idle`. In the recurrence messages do not wait for each other; where they do, that
// wait counts as fill and drain.
IdleTime split_idle(const model::ScheduleTable& table, const std::vector<double>& class_seconds, double p2p,
                    std::size_t rank, double idle);

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
