// Comparisons of results with double precision, which tests make without CUDA.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "real/cuda/kernels/arithmetic.h"
#include "real/measure/runner.h"

namespace plumbline::real::cuda {

// Collects pairs of values; the error is ||got - expected|| / ||expected||. NaN never passes.
class Comparison {
 public:
  void add(double got, double expected) {
    ++entries_;
    const double difference = got - expected;
    difference_ += difference * difference;
    expected_ += expected * expected;
  }
  double relative_error() const { return std::sqrt(difference_ / expected_); }
  CheckOutcome outcome(double tolerance) const {
    CheckOutcome result{relative_error(), tolerance, false, ""};
    result.ok = entries_ > 0 && result.relative_error <= tolerance;  // false for NaN
    return result;
  }

 private:
  long long entries_ = 0;
  double difference_ = 0, expected_ = 0;
};

constexpr double bf16_tolerance = 1e-2, fp8_tolerance = 5e-2, fp32_tolerance = 1e-5;

// Returns `count` indices below `extent`: the first, the last and pseudo-random ones; fewer if the extent is smaller.
inline std::vector<std::int64_t> sampled_indices(std::int64_t extent, int count, std::uint64_t seed) {
  std::vector<std::int64_t> indices = {0};
  if (extent > 1) indices.push_back(extent - 1);
  while (static_cast<int>(indices.size()) < count && static_cast<std::int64_t>(indices.size()) < extent) {
    const std::uint64_t drawn = random_bits(seed, indices.size());
    indices.push_back(static_cast<std::int64_t>(drawn % static_cast<std::uint64_t>(extent)));
  }
  return indices;
}

}  // namespace plumbline::real::cuda
