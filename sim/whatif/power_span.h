// How sure a prediction under a lower power limit is.
#pragma once

#include <array>
#include <optional>

#include "model/base/error.h"
#include "sim/predict/inputs.h"

namespace plumbline::sim {

// Returns the least and the most that a step of `step_s` seconds takes when power.clock_exponent is anything from 0
// (the energy of a FLOP does not depend on the clock) to 2 (the voltage goes with the clock). Each exponent has
// energies that give the same step at the limit to which the profile's rates or the device's tdp belong. The ratios are
// those of the closed form. Returns nullopt unless the plan gives a limit below that one. Errors are those of
// Predictor::closed_form().
model::Result<std::optional<std::array<double, 2>>> power_span(const Inputs& inputs, double step_s);

}  // namespace plumbline::sim
