// The draws of the plans that a search found, for probabilities: what plans share is one draw for all of them, so only
// what they do not share counts between them.
#pragma once

#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/result/result.h"
#include "sim/predict/inputs.h"
#include "sim/search/ranking.h"

namespace plumbline::sim {

// What of a prediction's error is not common to the plans of one run: the standard deviation of ln(predicted /
// measured) within runs of published and development steps, where plans differ in their schedules alone, and where they
// differ in degrees or micro-batches (`plumbline validate development-steps`, docs/validation.md).
inline constexpr double schedule_scatter = 0.04, layout_scatter = 0.10;

// A normal number with mean 0 that adds to ln(measured / predicted). Equal keys are one draw.
struct ErrorPart {
  std::string key;
  double deviation = 0;
};

// Returns what is left of a plan's step as parts whose variances add up to common^2 + own^2 of Inputs::left:
// - of the stack, shared by all its plans: half of common^2, which is assumed, since rows of one stack on several kinds
//   of hardware are too few to split it;
// - of the stack on this cluster with this profile: the other half, and what of own^2 exceeds layout_scatter^2, the
//   error that the plans of one run share;
// - of the degrees and the micro-batch: layout_scatter^2 - schedule_scatter^2;
// - of the plan: schedule_scatter^2. Both are smaller in proportion where own is below layout_scatter.
std::vector<ErrorPart> step_errors(const Inputs& inputs);

// Fills the draws of a plan's cost, and the interval of its result. Errors: those of draw_interval().
model::Result<void> draw_plan(const Inputs& inputs, unsigned threads, model::StepResult& result, PlanCost& cost);

// Returns where the uncertainty of a drawn plan comes from, by the same draws. Errors: those of interval_of().
model::Result<std::vector<model::IntervalPart>> drawn_parts(const Inputs& inputs, unsigned threads,
                                                            const model::StepResult& result);

}  // namespace plumbline::sim
