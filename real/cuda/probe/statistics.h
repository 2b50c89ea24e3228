// Order statistics of timing samples.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace plumbline::real::cuda {

struct Quantiles {
  double min = 0, p10 = 0, p50 = 0, p90 = 0;
};

// Linear interpolation between the two nearest samples. Requires at least one sample.
inline Quantiles quantiles(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double share) {
    const double position = share * static_cast<double>(samples.size() - 1);
    const auto below = static_cast<std::size_t>(position);
    const std::size_t above = std::min(below + 1, samples.size() - 1);
    return samples[below] + (position - static_cast<double>(below)) * (samples[above] - samples[below]);
  };
  return {samples.front(), at(0.1), at(0.5), at(0.9)};
}

}  // namespace plumbline::real::cuda
