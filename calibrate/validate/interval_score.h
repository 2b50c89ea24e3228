// How well predictions and their intervals hold: predicted distributions compared with what was measured, and scores
// over many of them.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "model/result/result.h"
#include "sim/interval/step_draws.h"

namespace plumbline::calibrate {

// Statistics of relative errors.
struct ErrorStatistics {
  std::size_t rows = 0;
  double median_absolute = 0, largest = 0, mean_absolute = 0, bias = 0;  // largest: with its sign
};
ErrorStatistics errors_of(const std::vector<double>& errors);

// A predicted distribution with the measured value, both in the same unit.
struct PredictedRange {
  model::Quantiles quantiles;
  double measured = 0;  // above 0

  // Returns the predicted probability of less than was measured: the probability integral transform.
  double below() const { return quantiles.share_below(measured); }
};

// Returns the range of a value whose logarithm is normal with this standard deviation around that of `middle`.
PredictedRange lognormal_range(double middle, double deviation, double measured);

// Statistics of ranges. Of eight of ten rows the measured value should lie from P10 to P90, and of one row of ten in
// each tenth of the prediction (Dawid 1984).
struct IntervalScore {
  std::size_t rows = 0;
  double coverage = 0;    // the share of rows whose measured value lies from P10 to P90
  double half_width = 0;  // median of half of P90 - P10 over P50
  // Mean over rows and P10, P50, P90 of the loss q (m - p) where the measured m is above the predicted p, and
  // (1 - q) (p - m) elsewhere, over m (Koenker and Bassett 1978).
  double pinball = 0;
  ErrorStatistics middle;                // of P50
  std::array<std::size_t, 10> tenths{};  // rows by below()
};
IntervalScore score_of(const std::vector<PredictedRange>& ranges);

// What was measured of a row in what was likely. With memory goes the probability that the plan fits, and whether it
// ran, where it is known that it ran or did not for lack of memory.
struct RowRanges {
  std::optional<PredictedRange> step, memory;
  std::optional<PredictedRange> baseline;  // the step by a constant MFU
  std::optional<double> fits_probability;
  std::optional<bool> ran;
  sim::DrawnSpread drawn;  // of the step, without what is left
};

// Verdicts about rows that ran or ended for lack of memory, by the probabilities of model::fit_of().
struct FitVerdicts {
  std::size_t rows = 0, fit = 0, fit_wrong = 0, unfit = 0, unfit_wrong = 0;
  double brier = 0;  // mean square of fits_probability less what happened, 1 or 0 (Brier 1950)
};

struct RangeScores {
  IntervalScore step, memory, baseline;
  FitVerdicts fits;
};
RangeScores scores_of(const std::vector<RowRanges>& rows);

}  // namespace plumbline::calibrate
