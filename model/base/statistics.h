// Quantiles of samples, and the largest of many.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <vector>

namespace plumbline::model {

// Returns what lies at a place from 0 to n - 1 of n rising values, between its neighbors where both are finite.
inline double value_at(const std::vector<double>& rising, double place) {
  const auto below = static_cast<std::size_t>(place);
  const double low = rising[below], high = rising[std::min(below + 1, rising.size() - 1)];
  const double part = place - static_cast<double>(below);
  return part > 0 && low < high ? low + part * (high - low) : low;
}

// Returns the value that `share` of the values do not exceed, at place share * (n - 1) of them. Requires values.
inline double quantile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  return value_at(values, share * static_cast<double>(values.size() - 1));
}

// Returns the middle one of the values, the larger of two. Requires values.
template <class T>
T upper_median(std::vector<T> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// Returns the expected largest of n independent standard normal numbers, 0 for one:
//   integral of 1 - Phi(x)^n over x > 0, less that of Phi(x)^n over x < 0.
inline double expected_largest(std::int64_t n) {
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
