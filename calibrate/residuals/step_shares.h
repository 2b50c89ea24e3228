// What a predicted step consists of, by how much it grows with each family of costs: the features by which residuals
// of predictions are explained.
#pragma once

#include <array>
#include <string_view>

#include "model/base/error.h"
#include "sim/predict/inputs.h"
#include "sim/predict/predictor_pool.h"

namespace plumbline::calibrate {

// A family of costs. `hidden` is what overlapping gradient reductions and parameter gathers saves.
enum class StepCause : std::uint8_t { gemms, attention, memory_bound, launches, links, hidden };
inline constexpr std::size_t step_causes = 6;
std::string_view to_string(StepCause cause);

// The seconds of a step by cause, indexed by StepCause. Those of kernels and links are the derivative of the step to a
// factor on all their times, so what overlaps counts only as far as the step waits for it, and pipeline bubbles count
// with what they wait for. Those of launches are a microsecond for each kernel that the step waits for.
using StepShares = std::array<double, step_causes>;

// Returns the shares of the plan's step in closed form. Errors are those of Predictor::closed_form().
model::Result<StepShares> step_shares(const sim::Inputs& inputs, sim::PredictorPool& predictors);

}  // namespace plumbline::calibrate
