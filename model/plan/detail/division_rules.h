// Checks what tensor and context parallelism must divide in a model; each rule has its reason.
#pragma once

#include <optional>

#include "model/architecture/architecture.h"
#include "model/base/error.h"
#include "model/plan/plan.h"

namespace plumbline::model {

// Returns an infeasible error with the key, the rule and the nearest degrees that satisfy it, or nothing.
std::optional<Error> check_divisions(const Plan& plan, const Architecture& architecture);

}  // namespace plumbline::model
