// Quantiles of draws, and what share of their variance each source has.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "model/result/result.h"
#include "sim/interval/left.h"
#include "sim/interval/step_draws.h"
#include "sim/interval/uncertainty.h"

namespace plumbline::sim {

// The draws of a plan with what its parts need of them: every uncertainty with its numbers and its effect.

struct Drawn {
  std::vector<Uncertainty> uncertainties;  // of which no source is switched off
  std::vector<std::vector<double>> z;      // [uncertainty][draw]
  StepDraws draws;
  bool whole = true;  // false: it was stopped, so that draws are missing and there is no gradient
  // By how much ln(step time) grows when one number is 1 and all others are 0; empty without parts.
  std::vector<double> gradient;
};

// Returns the profile with changed constants; those that are changed beyond their range are at its end.
model::Profile changed_profile(const model::Profile& profile, const InputChange& change);

// Returns what a draw changes.
InputChange change_of(const Drawn& drawn, std::size_t row);

// Leaves out the uncertainties that are switched off, and draws the numbers of the others, unless it is stopped before.
model::Result<void> draw_numbers(const IntervalOptions& options, Drawn& drawn);

// Returns the draws of everything but what is left. Errors: those of Predictor::closed_form() on the plan as it is.
model::Result<Drawn> draw(const Inputs& inputs, const IntervalOptions& options);

inline constexpr std::string_view left_source = "what is left";

// What draws are at least: those of another quantity, times what is left of it by the same numbers. Empty: nothing.
struct Least {
  std::vector<double> draws;
  Left left;
};

// Returns of each draw the probability that it is at most `most` times what is left, which is a lognormal factor.
std::vector<double> probabilities_below(double most, const std::vector<double>& draws, const Left& left,
                                        const Least& least = {});

// Returns a quantile of the draws, which are equally likely, times what is left. Where nothing is left, it is
// interpolated linearly between the two nearest draws, so that another draw is below it with that probability.
double quantile_of(const std::vector<double>& draws, const Left& left, const Least& least, double probability);
model::Quantiles quantiles_of(const std::vector<double>& draws, const Left& left, const Least& least = {});

// Explains ln(time) of the draws by the sources' linear scores: the sum of gradient * z over a source's uncertainties.
// Least squares give each score a coefficient near 1; a source's share is the covariance of (coefficient * score) and
// ln(time) over the variance, and what scores do not explain counts to the sources in proportion. What is left adds its
// own variance. Parts below a thousandth are left out, and the others scaled to 1. A measurement subtracts (1 - after)
// of the contribution of what it measures from each draw, and the half-width goes with the standard deviation of
// ln(time); one that narrows nothing is no measurement of its source.
std::vector<model::IntervalPart> parts_of(const Drawn& drawn, const Left& left);

// The peak of a rank's memory under a draw.
struct PeakDraw {
  double bytes = 0;        // of the fullest rank
  double least_bytes = 0;  // the part of the device's that the allocator cannot give back
  // Tensors, below which no peak of segments or of the device is.
  double tensors_bytes = 0;
};

// The peaks of the fullest rank under changes, from the memory of a prediction with the inputs as they are: ranks hold
// the rows of the fullest rank of their expert group instead of the mean ones, contexts and connections are scaled, and
// what the allocator holds unused moves within its range, which no device limits.
class DrawnPeaks {
 public:
  // Inputs and memory must outlive the object.
  DrawnPeaks(const Inputs& inputs, const model::Memory& memory, PeakOf part = PeakOf::device);
  PeakDraw of(const InputChange& change);

 private:
  double excess_rows(const InputChange& change);
  double excess_of_plan() const;

  const Inputs& inputs_;
  const model::Memory& memory_;
  PeakOf part_;
  model::Plan plan_;             // with the rows of the change
  double largest_ = 0;           // expected deviation of the fullest rank's rows in one layer
  double unchanged_excess_ = 0;  // by what share the rows of the inputs as they are exceed the mean
  bool rows_change_ = false;
};

// Sets peak_bytes and fits_probability from the draws and the residual of measured peaks. An allocator gives back what
// it holds unused before it fails: a draw fits where its least bytes do, whatever its peak on a larger device. Of
// `memory` the capacities and the bytes on hosts count.
void set_memory(const std::vector<PeakDraw>& draws, const std::optional<Left>& left, const model::Memory& memory,
                model::PredictionInterval& interval);

}  // namespace plumbline::sim
