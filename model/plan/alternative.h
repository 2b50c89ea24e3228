// Plans that differ: their values by key, and what an import would have given otherwise.
#pragma once

#include <functional>
#include <map>
#include <string>

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

}  // namespace plumbline::model
