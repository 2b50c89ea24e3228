// A prediction in the middle of its interval: as clusters run the step, half of which are shorter. Without an interval
// it is what the components add up to.
#pragma once

#include <optional>

#include "model/result/result.h"
#include "model/result/serving_result.h"

namespace plumbline::model {

// Returns the step with the times, rates and shares of the whole step of the middle. Its parts (slots, bubble, classes,
// power) stay those of the components.
StepTimes middle_step(const StepTimes& step, const std::optional<PredictionInterval>& interval);
inline StepTimes middle_step(const StepResult& result) { return middle_step(result.step, result.interval); }

// Returns the run with the days, GPU-hours and costs of the middle; nothing where the result has none. The cost is the
// middle over the draws of step and price.
std::optional<RunCost> middle_run(const StepResult& result);

// Returns the step of reinforcement learning with the time, rates and costs of the middle. Its parts, shares of idle
// time and the rate of generation stay those of the components.
RolloutResult middle_rollout(RolloutResult rollout);

// The middle of a deployment's interval over what its components add up to; 1 without an interval.
struct ServingFactors {
  double tpot = 1, ttft_unloaded = 1, ttft = 1, rate = 1, usd = 1;
};
ServingFactors middle_factors(const ServingResult& result);
// Return a result and a point of a frontier with the times, rates and prices of the middle. Their pools, decode_step_s
// and rates of pools stay those of the components.
ServingResult middle_serving(ServingResult result, const ServingFactors& factors);
ServingPoint middle_point(ServingPoint point, const ServingFactors& factors);
inline ServingResult middle_serving(const ServingResult& result) {
  return middle_serving(result, middle_factors(result));
}

}  // namespace plumbline::model
