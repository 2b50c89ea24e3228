#include "calibrate/match/detail/compute_score.h"

#include <algorithm>
#include <cmath>

namespace plumbline::calibrate {
namespace {

// The names of most GEMMs do not state whether they are weight gradients.
std::size_t scale_of(const MatchItem& item) {
  return static_cast<std::size_t>(item.row == MatchRow::weight_gradient ? MatchRow::gemm : item.row);
}

// Returns the mean logarithm of the times of each class. A cut trace has fewer kernels of a class, but kernels like
// those predicted, so that sums would not do.
std::array<double, match_rows> mean_logs(const std::vector<MatchItem>& items) {
  std::array<double, match_rows> means{}, counts{};
  for (const MatchItem& item : items) {
    means[scale_of(item)] += item.log_seconds;
    ++counts[scale_of(item)];
  }
  for (std::size_t row = 0; row < match_rows; ++row)
    means[row] = counts[row] > 0 ? means[row] / counts[row] : std::nan("");
  return means;
}

}  // namespace

ComputeScore::ComputeScore(const std::vector<MatchItem>& predicted, const std::vector<MatchItem>& measured)
    : predicted_(predicted), measured_(measured) {
  const auto before = mean_logs(predicted), after = mean_logs(measured);
  for (std::size_t row = 0; row < match_rows; ++row)
    if (const double scale = after[row] - before[row]; !std::isnan(scale)) scale_[row] = scale;
}

bool ComputeScore::same(std::size_t i, std::size_t j) const {
  const MatchItem &p = predicted_[i], &m = measured_[j];
  return likeness(p, m) == Likeness::same && place_evidence(p, m) >= 0 && may_be_part(p, m);
}

double ComputeScore::operator()(std::size_t i, std::size_t j) const {
  const MatchItem &p = predicted_[i], &m = measured_[j];
  const Likeness like = likeness(p, m);
  constexpr double never = -1e9;
  if (like == Likeness::none) return never;
  constexpr double same_row = 2, similar = 0.1, time_weight = 0.5;
  const double off = std::abs(m.log_seconds - p.log_seconds - scale_[scale_of(p)]);
  return (like == Likeness::same ? same_row : similar) + evidence(p, m) - time_weight * std::min(1.0, off);
}

bool ComputeScore::fits(const MatchItem& predicted, double log_measured, double log_predicted) const {
  const double most = std::log(3.0), ratio = log_measured - log_predicted;
  return std::min(std::abs(ratio), std::abs(ratio - scale_[scale_of(predicted)])) <= most;
}

}  // namespace plumbline::calibrate
