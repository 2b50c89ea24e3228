// Turns the execution of a step, by events or in closed form, into its result: where the time goes, the bound, the
// losses against it, and the constants behind the time. Breakdown and provenance are those of rank 0.
#pragma once

#include <vector>

#include "model/architecture/metrics.h"
#include "model/plan/plan.h"
#include "model/result/result.h"
#include "sim/analysis/bound.h"
#include "sim/analysis/exposure.h"
#include "sim/predict/inputs.h"
#include "sim/predict/plan_work.h"
#include "sim/step/step_executor.h"

namespace plumbline::sim {

// The losses between a step and its bound: seconds of the rank that defines the bound, each with one cause.
// docs/costs.md defines them.

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

// The bound of a plan, which does not depend on the execution.
struct PlanBound {
  StepBound step;
  Load load;                   // of the rank that defines the bound
  double flops_at_peak_s = 0;  // FLOPs of the busiest rank at the device's peak
};
// by_events: a GPU sends one message at a time, so messages count for the bound.
PlanBound plan_bound(const PlanWork& work, bool by_events);

class StepAccounting {
 public:
  // All references must outlive the object. The inputs' plan is not read. The work must have timed slots and states.
  StepAccounting(const Inputs& inputs, const PlanWork& work, const Execution& execution);

  model::StepTimes parts() const;  // the step's time and its parts: slots, bubble, what is exposed
  // Returns the same with rates, chunks and power.
  model::StepTimes times(const model::ModelMetrics& metrics) const;
  // Returns the class times of a step by events, which add up to its time.
  std::vector<model::StepTimes::ClassTime> breakdown() const;
  std::vector<model::LostTime> lost(const PlanBound& bound) const;
  std::vector<model::ProvenanceEntry> provenance() const;

 private:
  // Returns whether the execution resolves segments; the closed form does not.
  bool looked_inside() const { return execution_.events > 0; }
  double exposed_input() const;    // s that the step waits for its tokens
  double exposed_average() const;  // s that the step waits for the copy of the parameters to the host
  double bubble() const;           // s of rank 0 between slots
  double compute_seconds() const;  // s of rank 0 in slots while a compute kernel runs
  void fill_rates(const model::ModelMetrics& metrics, model::StepTimes& step) const;
  void fill_power(model::StepTimes& step) const;
  void fill_slots(model::StepTimes& step) const;
  void fill_chunks(model::StepTimes& step) const;
  Attribution attribution() const;
  IdleTime idle_time(std::size_t rank, double idle) const;
  StepAccount account_of(const PlanBound& bound) const;

  const Inputs& inputs_;
  const PlanWork& work_;
  const Execution& execution_;
};

}  // namespace plumbline::sim
