// Which values of a plan's keys its software has: a stack lists them (docs/stacks.md), a search tries no others, and a
// plan with another one is predicted with a warning.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "model/plan/plan.h"

namespace plumbline::model {

// Returns the values of a list as words. A key that no stack decides about and a value that the plan would refuse are
// input errors at the list's place.
Result<std::vector<std::string>> listed_values(const PlanSetting& list);

// Returns whether the plan's software has the value of the key.
bool software_has(const Plan& plan, const std::string& key, std::string_view value);

// Returns a sentence for each value at work in the plan that its software does not have.
std::vector<std::string> software_warnings(const Plan& plan);

}  // namespace plumbline::model
