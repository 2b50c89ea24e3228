// How far a predicted step may be from its measurement, as the results of all programs state it.
#pragma once

#include <optional>

#include "model/base/error.h"
#include "model/result/result.h"
#include "sim/interval/step_draws.h"
#include "sim/predict/inputs.h"

namespace plumbline::sim {

// Adds to a result whether it fits in memory, what the limit of power leaves open and, with options, its interval.
// Errors: those of power_span() and interval_of().
model::Result<void> add_spread(const Inputs& inputs, model::StepResult& result,
                               const std::optional<IntervalOptions>& options);

}  // namespace plumbline::sim
