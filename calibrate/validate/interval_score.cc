#include "calibrate/validate/interval_score.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/base/statistics.h"
#include "model/memory/memory.h"

namespace plumbline::calibrate {
namespace {

double loss(double share, double predicted, double measured) {
  const double above = measured - predicted;
  return (above >= 0 ? share * above : (share - 1) * above) / measured;
}

}  // namespace

ErrorStatistics errors_of(const std::vector<double>& errors) {
  ErrorStatistics result;
  result.rows = errors.size();
  if (errors.empty()) return result;
  std::vector<double> sizes;
  for (const double error : errors) {
    sizes.push_back(std::abs(error));
    result.mean_absolute += std::abs(error) / static_cast<double>(errors.size());
    result.bias += error / static_cast<double>(errors.size());
    if (std::abs(error) > std::abs(result.largest)) result.largest = error;
  }
  result.median_absolute = model::quantile(std::move(sizes), 0.5);
  return result;
}

PredictedRange lognormal_range(double middle, double deviation, double measured) {
  const double factor = std::exp(model::normal_p90 * deviation);
  return {{middle / factor, middle, middle * factor}, measured};
}

IntervalScore score_of(const std::vector<PredictedRange>& ranges) {
  IntervalScore score;
  score.rows = ranges.size();
  if (ranges.empty()) return score;
  std::vector<double> half_widths, errors;
  for (const PredictedRange& range : ranges) {
    const auto& [p10, p50, p90] = range.quantiles;
    score.coverage += range.quantiles.contains(range.measured) ? 1 : 0;
    score.pinball +=
        (loss(0.1, p10, range.measured) + loss(0.5, p50, range.measured) + loss(0.9, p90, range.measured)) / 3;
    half_widths.push_back(range.quantiles.half_width());
    errors.push_back(p50 / range.measured - 1);
    const auto tenth = static_cast<std::size_t>(range.below() * static_cast<double>(score.tenths.size()));
    ++score.tenths[std::min(tenth, score.tenths.size() - 1)];
  }
  score.middle = errors_of(errors);
  score.half_width = errors_of(half_widths).median_absolute;
  score.coverage /= static_cast<double>(ranges.size());
  score.pinball /= static_cast<double>(ranges.size());
  return score;
}

RangeScores scores_of(const std::vector<RowRanges>& rows) {
  std::vector<PredictedRange> steps, memory, baselines;
  FitVerdicts fits;
  for (const RowRanges& row : rows) {
    if (row.step) steps.push_back(*row.step);
    if (row.memory) memory.push_back(*row.memory);
    if (row.baseline) baselines.push_back(*row.baseline);
    if (!row.fits_probability || !row.ran) continue;
    ++fits.rows;
    fits.brier += std::pow(*row.fits_probability - (*row.ran ? 1 : 0), 2);
    const bool fit = *row.fits_probability >= model::surely_fits, unfit = *row.fits_probability < model::hardly_fits;
    fits.fit += fit;
    fits.fit_wrong += fit && !*row.ran;
    fits.unfit += unfit;
    fits.unfit_wrong += unfit && *row.ran;
  }
  if (fits.rows > 0) fits.brier /= static_cast<double>(fits.rows);
  return {score_of(steps), score_of(memory), score_of(baselines), fits};
}

}  // namespace plumbline::calibrate
