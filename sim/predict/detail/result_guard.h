// Refuses predictions that no computation can have, in every build. Errors name the plan's profile and device and the
// quantity at fault.
#pragma once

#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/plan/plan.h"
#include "model/result/result.h"
#include "sim/predict/cost_models.h"
#include "sim/predict/inputs.h"

namespace plumbline::sim {

// What a prediction has to do with: its inputs, whose plan does not matter, and the constants that hold on the device.
struct Predicted {
  const Inputs& inputs;
  const model::Plan& plan;
  const CostModels& costs;
};

// Checks times and memory: each is a finite number that is not negative (an input error), and the model's FLOPs with
// causal attention take at least as long as at the device's dense peak of the plan's format (MFU up to 1; infeasible).
// A few comparisons: searches call it for every plan.
model::Result<void> check_estimate(const Predicted& predicted, const model::StepTimes& step, double peak_bytes);

// Checks a step against its proven lower bound (an input error), and against all FLOPs of its busiest rank at the
// device's peaks (infeasible), to 1e-9 of them.
model::Result<void> check_limits(const Predicted& predicted, double step_s, double bound_s, double flops_at_peak_s);

// Refuses a step, by its closed form, that is too long for events, whose times are picoseconds of 64 bits (an input
// error).
model::Result<void> check_countable(const Predicted& predicted, double step_s);

// Returns a sentence where the step is faster than at a peak that is only assumed, for a profile that holds on the
// device: then the peak is at fault, and the checks above let it pass.
std::vector<std::string> peak_warnings(const Predicted& predicted, double step_s, double flops_at_peak_s);

}  // namespace plumbline::sim
