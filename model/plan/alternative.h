// Plans that differ: their values by key, what an import would have given otherwise, and what software may run
// otherwise.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

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

}  // namespace plumbline::model
