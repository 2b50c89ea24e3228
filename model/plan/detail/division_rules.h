// Checks what the degrees of a plan must divide in a model; each rule has its reason.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "model/architecture/architecture.h"
#include "model/base/error.h"
#include "model/plan/instance.h"
#include "model/plan/plan.h"

namespace plumbline::model {

// Returns an infeasible error with the key, the rule and the nearest degrees that satisfy it, or nothing.
std::optional<Error> check_divisions(const Plan& plan, const Architecture& architecture);

// Returns the same for an instance that serves; `key` returns the key of a degree.
std::optional<Error> check_instance_divisions(const Plan& plan, const Architecture& architecture,
                                              const Instance& instance,
                                              const std::function<std::string(std::string_view)>& key);

}  // namespace plumbline::model
