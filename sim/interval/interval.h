// Intervals of predictions, from draws through the closed form. docs/intervals.md explains the method.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/result/prediction_interval.h"
#include "model/result/result.h"
#include "sim/interval/left.h"
#include "sim/predict/inputs.h"

namespace plumbline::sim {

struct IntervalOptions {
  std::size_t draws = 128;
  std::uint64_t seed = 1;
  unsigned threads = 0;                // 0: one per core; the result does not depend on it
  std::set<std::string> without = {};  // sources that are taken as known (IntervalPart::source)
};

// The predictions of one plan, draw by draw. The same index is the same draw in every plan, so that plans can be
// compared draw by draw.
struct StepDraws {
  std::vector<double> time_ratio;  // of the drawn closed form over that of the inputs as they are
};

// Returns the draws of everything but what is left. Errors: those of Predictor::closed_form() on the plan as it is.
model::Result<StepDraws> draw_steps(const Inputs& inputs, const IntervalOptions& options = {});

// Returns the interval of a result that was predicted from the inputs, at any fidelity: the draws' ratios times its
// step, what is left, and the range of the price. Errors: as draw_steps().
model::Result<model::PredictionInterval> interval_of(const Inputs& inputs, const model::StepResult& result,
                                                     const IntervalOptions& options = {});

// Returns the step times of each draw with what is left, s, sorted by nothing: `copies` values for each draw, the same
// for every plan whose uncertainties are the same. `plan` names what the plan has of its own.
std::vector<double> times_with_left(const StepDraws& draws, double step_s, const Left& left, const std::string& plan,
                                    std::size_t copies);

}  // namespace plumbline::sim
