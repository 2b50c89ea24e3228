#include <algorithm>
#include <cmath>

#include "calibrate/match/detail/matching.h"

namespace plumbline::calibrate {
namespace {

constexpr double same_row = 2;  // the gain of a match of one class

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
  constexpr double never = -1e9, similar = 0.1;
  if (like == Likeness::none) return never;
  return (like == Likeness::same ? same_row : similar) + evidence(p, m) - time_cost(p, m.log_seconds);
}

double ComputeScore::parts(std::size_t i, std::size_t j, std::size_t count) const {
  constexpr double never = -1e9, shorter = 0.15;  // logarithm of a time
  const MatchItem& p = predicted_[i];
  if (p.row > MatchRow::weight_gradient) return never;
  double seconds = 0;
  for (std::size_t part = j; part < j + count; ++part) {
    if (measured_[part].log_seconds > p.log_seconds - shorter || !same(i, part)) return never;
    seconds += measured_[part].seconds;
  }
  return same_row + evidence(p, measured_[j]) - time_cost(p, std::log(std::max(seconds, 1e-9)));
}

void ComputeScore::scale_gemms(const Alignment& alignment) {
  const auto seconds = [](const std::vector<MatchItem>& items, const std::vector<std::int32_t>& of) {
    double sum = 0;
    for (std::size_t i = 0; i < items.size(); ++i)
      sum += of[i] >= 0 && items[i].row <= MatchRow::weight_gradient ? items[i].seconds : 0;
    return sum;
  };
  const double measured = seconds(measured_, alignment.predicted_of);
  const double predicted = seconds(predicted_, alignment.measured_of);
  summed_ = measured > 0 && predicted > 0;
  if (summed_) scale_[static_cast<std::size_t>(MatchRow::gemm)] = std::log(measured / predicted);
}

// Returns what a time off that of its class costs.
double ComputeScore::time_cost(const MatchItem& predicted, double log_measured) const {
  constexpr double weight = 0.5;
  const double ratio = log_measured - predicted.log_seconds;
  const double off = std::abs(ratio - scale_[scale_of(predicted)]);
  const bool open = predicted.row <= MatchRow::weight_gradient && !summed_;
  return weight * std::min(1.0, open ? std::min(off, std::abs(ratio)) : off);
}

bool ComputeScore::fits(const MatchItem& predicted, double log_measured, double log_predicted) const {
  const double most = std::log(3.0), ratio = log_measured - log_predicted;
  return std::min(std::abs(ratio), std::abs(ratio - scale_[scale_of(predicted)])) <= most;
}

}  // namespace plumbline::calibrate
