// Checks whether the operators, streams and groups of real execution support a plan.
#pragma once

#include <optional>

#include "model/architecture/architecture.h"
#include "model/base/error.h"
#include "model/plan/layout.h"
#include "model/plan/plan.h"
#include "model/program/program.h"
#include "real/executor/device.h"

namespace plumbline::real {

// Returns an infeasible error, with the key at fault and what to set instead, for a plan that can be simulated but not
// executed on the device.
std::optional<model::Error> check_executable(const model::Plan& plan, const model::Architecture& architecture,
                                             const model::StepProgram& program, const Device& device);

}  // namespace plumbline::real
