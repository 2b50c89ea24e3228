#include "model/result/prediction_interval.h"

#include <cmath>
#include <numbers>

namespace plumbline::model {

double Quantiles::share_below(double value) const {
  const double end = value < p50 ? p10 : p90;
  const double distance = value > 0 && p50 > 0 ? std::log(value / p50) : value - p50;
  const double width = end > 0 && p50 > 0 ? std::abs(std::log(end / p50)) : 0;
  if (width <= 0) return value < p50 ? 0 : value > p50 ? 1 : 0.5;
  return std::erfc(-normal_p90 * distance / width / std::numbers::sqrt2) / 2;
}

}  // namespace plumbline::model
