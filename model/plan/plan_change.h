// Changes of a plan that was read, for programs that try many of them.
#pragma once

#include <string>
#include <vector>

#include "model/base/error.h"

namespace plumbline::model {

struct Plan;

// Gives a plan that was read the overrides, as read_plan() would. Keys of the model, and those that name a file, are
// not among them: what was read with the plan depends on them.
Result<void> change_plan(const std::vector<std::string>& overrides, Plan& plan);

}  // namespace plumbline::model
