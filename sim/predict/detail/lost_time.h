// The losses between a step and its bound: seconds of the rank that defines the bound, each with one cause.
// docs/costs.md defines them.
#pragma once

#include <string>
#include <vector>

#include "model/plan/plan.h"
#include "model/result/result.h"
#include "sim/analysis/bound.h"
#include "sim/analysis/exposure.h"

namespace plumbline::sim {

// Seconds of the rank that defines the bound. The step takes
//   slots + optimizer kernels + tail + idle + input + average,
// of which a compute kernel runs during `busy` seconds of the slots.
struct StepAccount {
  double bound = 0;
  Resource resource = Resource::compute;
  double slots = 0, busy = 0;
  double undisturbed = 0;                       // `busy` if communication neither held SMs nor slowed kernels down
  Load load;                                    // of all slots, and of collectives and messages between them
  Exposure exposure{};                          // on a GPU alone
  double gather_wait = 0;                       // in slots, for parameters
  double optimizer = 0, optimizer_at_best = 0;  // kernels
  StepTail tail;
  IdleTime idle;
  double input = 0, average = 0;

  double step() const {
    return slots + optimizer + tail.total() + idle.point_to_point + idle.bubble() + input + average;
  }
};

// Returns the losses, which add up with the bound to account.step(). None is negative, and causes of 0 s are left out.
std::vector<model::LostTime> lost_times(const StepAccount& account, const model::Plan& plan);

}  // namespace plumbline::sim
