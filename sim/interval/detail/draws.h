// The draws of a plan with what its parts need of them: every uncertainty with its numbers and its effect.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "sim/interval/step_draws.h"
#include "sim/interval/uncertainty.h"

namespace plumbline::sim {

struct Drawn {
  std::vector<Uncertainty> uncertainties;  // of which no source is switched off
  std::vector<std::vector<double>> z;      // [uncertainty][draw]
  StepDraws draws;
  // By how much ln(step time) grows when one number is 1 and all others are 0; empty without parts.
  std::vector<double> gradient;
};

// Returns the profile with changed constants; those that are changed beyond their range are at its end.
model::Profile changed_profile(const model::Profile& profile, const InputChange& change);

// Returns what a draw changes.
InputChange change_of(const Drawn& drawn, std::size_t row);

// Leaves out the uncertainties that are switched off, and draws the numbers of the others.
void draw_numbers(const IntervalOptions& options, Drawn& drawn);

// Returns the draws of everything but what is left. Errors: those of Predictor::closed_form() on the plan as it is.
model::Result<Drawn> draw(const Inputs& inputs, const IntervalOptions& options);

}  // namespace plumbline::sim
