// A prediction in the middle of its interval: as clusters run the step, half of which are shorter. Without an interval
// it is what the components add up to.
#pragma once

#include <optional>

#include "model/result/result.h"

namespace plumbline::model {

// Returns the step with the times, rates and shares of the whole step of the middle. Its parts (slots, bubble, classes,
// power) stay those of the components.
StepTimes middle_step(const StepTimes& step, const std::optional<PredictionInterval>& interval);
inline StepTimes middle_step(const StepResult& result) { return middle_step(result.step, result.interval); }

// Returns the run with the days, GPU-hours and costs of the middle; nothing where the result has none. The cost is the
// middle over the draws of step and price.
std::optional<RunCost> middle_run(const StepResult& result);

}  // namespace plumbline::model
