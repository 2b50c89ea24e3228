// Plans that differ: their values by key, what an import would have given otherwise, and what software may run
// otherwise.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "model/plan/plan.h"

namespace plumbline::model {

// Returns the values of a plan as TOML, by key; keys that are not set have none.
std::map<std::string, std::string, std::less<>> plan_values(const Plan& plan);

// The plan of an import in which one decision is made otherwise.
struct PlanAlternative {
  int line = 0;      // of the decision, in the script or file; 0: none
  std::string text;  // "without --tp-comm-overlap", "with overlap.tensor=true"
  Plan plan;
};

enum class SoftwareOf { training, serving };

// A plan in which one key of the software has another of its usual values.
struct UsualChange {
  std::string_view key, name;  // "recompute.policy", "recomputation"
  std::string now, value;      // both as words, flags as on and off; `now` is empty where the key is not set
  std::string setting;         // KEY=VALUE
  bool open = false;           // the plan does not state the key: its value is a stack's or the default
  Plan plan;
};
// Returns those that the plan's software has, the likeliest first of each key. Whether the device has them, and whether
// they can be laid out, a prediction shows.
std::vector<UsualChange> usual_changes(const Plan& plan, SoftwareOf what = SoftwareOf::training);

// Gives a plan that was read the overrides, as read_plan() would. Keys of the model, and those that name a file, are
// not among them: what was read with the plan depends on them.
Result<void> change_plan(const std::vector<std::string>& overrides, Plan& plan);

// Returns the overrides of a launch and those of its user, so that stages keep the launch's layers: a value of
// schedule.layers_per_stage as TOML, empty where it states none. They are those of the schedule that the launch or its
// user names, unless the user changes how many stages there are.
std::vector<std::string> with_layers_of_launch(std::vector<std::string> overrides,
                                               const std::vector<std::string>& of_user, const std::string& layers);

}  // namespace plumbline::model
