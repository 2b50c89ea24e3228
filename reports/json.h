// Results as JSON, in the envelope that other tools depend on: keys carry their unit, times are seconds,
// numbers print so that they read back to the same double, and what was not computed is null.
#pragma once

#include <string>

#include "model/plan.h"
#include "model/result.h"

namespace plumbline::reports {

std::string to_json(const model::StepResult& result, const model::Plan& plan);
// The objects `plan` and `step` alone, for outputs that are put together elsewhere.
std::string plan_json(const model::Plan& plan);
std::string step_json(const model::StepTimes& step);

std::string memory_to_json(const model::Memory& memory, const model::Plan& plan);

}  // namespace plumbline::reports
