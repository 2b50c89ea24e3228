#include "sim/interval/detail/spread.h"

#include <cmath>
#include <numbers>

#include "model/result/prediction_interval.h"

namespace plumbline::sim {

double linear(const Spread& spread, double z) {
  return spread.middle + z / model::normal_p90 * (z < 0 ? spread.middle - spread.low : spread.high - spread.middle);
}

double geometric(const Spread& spread, double z) {
  return std::exp(linear({std::log(spread.low), std::log(spread.middle), std::log(spread.high)}, z));
}

double expected_largest(std::int64_t n) {
  constexpr int steps = 2000;
  constexpr double end = 10, width = end / steps;
  if (n <= 1) return 0;
  double sum = 0;
  for (int i = 0; i < steps; ++i) {
    const double x = (i + 0.5) * width;
    const double above = std::erfc(x / std::numbers::sqrt2) / 2;  // Phi(-x)
    const auto ranks = static_cast<double>(n);
    sum += -std::expm1(ranks * std::log1p(-above)) - std::pow(above, ranks);
  }
  return sum * width;
}

}  // namespace plumbline::sim
