#include "model/result/prediction_interval.h"

#include <cmath>
#include <numbers>

#include "model/base/statistics.h"

namespace plumbline::model {

double Quantiles::share_below(double value) const {
  const double end = value < p50 ? p10 : p90;
  const double distance = value > 0 && p50 > 0 ? std::log(value / p50) : value - p50;
  const double width = end > 0 && p50 > 0 ? std::abs(std::log(end / p50)) : 0;
  if (width <= 0) return value < p50 ? 0 : value > p50 ? 1 : 0.5;
  return std::erfc(-normal_p90 * distance / width / std::numbers::sqrt2) / 2;
}

namespace {

double quantile_of_sorted(const std::vector<double>& values, double probability) {
  const auto last = static_cast<double>(values.size() - 1);
  const double place = std::clamp(probability * (last + 2) - 1, 0.0, last);
  return value_at(values, place);
}

}  // namespace

double quantile_of(std::vector<double> values, double probability) {
  std::ranges::sort(values);
  return quantile_of_sorted(values, probability);
}

Quantiles quantiles_of(std::vector<double> values) {
  std::ranges::sort(values);
  return {quantile_of_sorted(values, 0.1), quantile_of_sorted(values, 0.5), quantile_of_sorted(values, 0.9)};
}

}  // namespace plumbline::model
