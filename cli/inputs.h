// Loading what a simulation needs, shared by the verbs that simulate.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/error.h"
#include "model/plan.h"
#include "sim/simulate.h"

namespace plumbline::cli {

// Resolves and reads plan, model, cluster and profile. `profile` overrides the plan's choice.
model::Result<sim::Inputs> load_inputs(const std::string& plan, const std::vector<std::string>& overrides,
                                       const std::optional<std::string>& profile = std::nullopt);

// The same for a plan that was made in code; a relative model.config is searched among the shipped ones.
model::Result<sim::Inputs> inputs_of_plan(const model::Plan& plan,
                                          const std::optional<std::string>& profile = std::nullopt);

}  // namespace plumbline::cli
