#include "model/base/statistics.h"

#include <cmath>
#include <numbers>

namespace plumbline::model {

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

}  // namespace plumbline::model
