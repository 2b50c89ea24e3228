// How far a predicted step may be from its measurement, as the results of all programs state it.
#pragma once

#include <array>
#include <optional>

#include "model/base/error.h"
#include "model/result/result.h"
#include "sim/interval/step_draws.h"
#include "sim/predict/inputs.h"

namespace plumbline::sim {

// Returns the least and the most that a step of `step_s` seconds takes when power.clock_exponent is anything from 0
// (the energy of a FLOP does not depend on the clock) to 2 (the voltage goes with the clock). Each exponent has
// energies that give the same step at the limit to which the profile's rates or the device's tdp belong. The ratios are
// those of the closed form. Returns nullopt unless the plan gives a limit below that one. Errors are those of
// Predictor::closed_form().
model::Result<std::optional<std::array<double, 2>>> power_span(const Inputs& inputs, double step_s);

// Adds to a result whether it fits in memory, what the limit of power leaves open and, with options, its interval, of
// which there is none where it was stopped. Returns the draws behind the interval.
// Errors: those of power_span() and draw_interval().
model::Result<std::optional<StepDraws>> add_spread(const Inputs& inputs, model::StepResult& result,
                                                   const std::optional<IntervalOptions>& options);

}  // namespace plumbline::sim
