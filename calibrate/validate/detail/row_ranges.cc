#include "calibrate/validate/detail/row_ranges.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/interval/interval.h"

namespace plumbline::calibrate::detail {
namespace {

// Quantiles need no more, since ln(step) is nearly linear in what is drawn.
constexpr std::size_t draws_of_row = 32;

}  // namespace

model::Result<RowRanges> row_ranges(const sim::Inputs& inputs, const model::StepResult& result, const RowValues& row) {
  const auto [interval, draws] =
      TRY(sim::draw_interval(inputs, result, {.draws = draws_of_row, .threads = 1, .peak = row.peak}));
  RowRanges ranges;
  if (row.measured_s) ranges.step = {interval.time_s, *row.measured_s};
  // A full device shows its capacity, whatever more an allocator would hold.
  const double most = row.peak == sim::PeakOf::device ? result.memory.capacity_bytes : INFINITY;
  if (row.measured_bytes) ranges.memory = {interval.peak_bytes.at_most(most), *row.measured_bytes};
  ranges.fits_probability = interval.fits_probability;
  ranges.ran = row.ran;
  const auto count = static_cast<double>(draws.time_ratio.size());
  for (const double ratio : draws.time_ratio) ranges.drawn_mean += std::log(ratio) / count;
  for (const double ratio : draws.time_ratio)
    ranges.drawn_variance += std::pow(std::log(ratio) - ranges.drawn_mean, 2) / count;
  return ranges;
}

std::vector<PredictedRange> ranges_by_other_sets(const std::vector<SetRow>& rows) {
  std::map<std::string, std::vector<double>> logarithms;  // by set
  for (const SetRow& row : rows) logarithms[row.set].push_back(std::log(row.measured / row.predicted));
  if (logarithms.size() < 2) return {};
  std::vector<PredictedRange> ranges;
  for (const SetRow& row : rows) {
    double mean = 0, square = 0;
    for (const auto& [set, values] : logarithms) {
      if (set == row.set) continue;
      const auto all = static_cast<double>(values.size() * (logarithms.size() - 1));
      for (const double value : values) mean += value / all, square += value * value / all;
    }
    const double deviation = std::sqrt(std::max(square - mean * mean, 1e-12));
    ranges.push_back(lognormal_range(row.predicted * std::exp(mean), deviation, row.measured));
  }
  return ranges;
}

}  // namespace plumbline::calibrate::detail
