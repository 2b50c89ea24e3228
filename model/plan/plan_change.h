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

// Returns the overrides of a launch and those of its user, so that stages keep the launch's layers: a value of
// schedule.layers_per_stage as TOML, empty where it states none. They are those of the schedule that the launch or its
// user names, unless the user changes how many stages there are.
std::vector<std::string> with_layers_of_launch(std::vector<std::string> overrides,
                                               const std::vector<std::string>& of_user, const std::string& layers);

}  // namespace plumbline::model
