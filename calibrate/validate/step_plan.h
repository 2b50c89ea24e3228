// The plan that predicts a published training step.
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
  std::string profile, memory;       // memory: as StepReading's, "device" where no reading has one
  std::vector<std::string> missing;  // features of the row that a plan cannot express
  bool missing_tensors = false;      // as StepReading's
};

// Returns the plan of a row, which must lack nothing. Further keys of the row win over those of readings, and these
// over its columns. Input errors name the row: hardware that the case does not list, a model type without a shipped
// model to start from, a dimension of that model that the row lacks, a plan key that does not exist.
model::Result<StepPlan> step_plan(const PublishedStep& step, const StepCase& definition);

}  // namespace plumbline::calibrate
