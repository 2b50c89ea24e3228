// From a published training step to the plan that is predicted for it.
#pragma once

#include <string>
#include <vector>

#include "calibrate/validate/published_steps.h"
#include "calibrate/validate/step_case.h"
#include "model/base/error.h"
#include "model/plan/plan.h"

namespace plumbline::calibrate {

struct StepPlan {
  model::Plan plan;
  std::string profile;
  std::vector<std::string> missing;  // what the plan cannot say about the row
};

// The row must lack nothing. Input errors name the row: hardware that the case does not know, a model type without a
// shipped model to start from, a plan key that does not exist.
model::Result<StepPlan> step_plan(const PublishedStep& step, const StepCase& definition);

}  // namespace plumbline::calibrate
