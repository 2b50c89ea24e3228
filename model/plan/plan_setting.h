// What software decides of a plan.
#pragma once

#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/base/provenance.h"
#include "model/plan/plan.h"

namespace plumbline::model {

// The value of a key that a stack implies, or the list of those that it has.
struct PlanSetting {
  std::string key;
  std::string value;  // as TOML
  Evidence kind = Evidence::assumed;
  std::string source;
  Plan::Place place;
  std::string needs;  // the constant of a profile without which a setting does not hold; empty: none
  // As TOML, the value that a setting replaces where the plan gives it; empty: the plan's stays.
  std::string instead_of;
};

// Returns an input error at the setting's place where it is not of a key and value that a stack may imply: software
// decides neither about model, cluster, batch and run nor about a search.
Result<void> check_setting(const PlanSetting& setting);

// Sets those keys that the plan does not give, and those whose value a setting replaces; values that are replaced are
// taken from the lists of what the plan's software has.
Result<void> apply_settings(const std::vector<PlanSetting>& settings, Plan& plan);

}  // namespace plumbline::model
