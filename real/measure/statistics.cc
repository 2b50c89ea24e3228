#include "real/measure/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace plumbline::real {
namespace {

double quantile(const std::vector<double>& sorted, double share) {
  const double position = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

Spread spread_of(std::vector<double> samples) {
  constexpr double low = 0.1, middle = 0.5, high = 0.9;
  std::ranges::sort(samples);
  Spread spread{samples.front(), quantile(samples, low), quantile(samples, middle), quantile(samples, high), 0};
  for (double& sample : samples) sample = std::abs(sample - spread.p50);
  std::ranges::sort(samples);
  spread.mad = quantile(samples, middle);
  return spread;
}

}  // namespace plumbline::real
