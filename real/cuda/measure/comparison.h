// Checks of results: copies to the host, and comparisons with double precision.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "real/cuda/kernels/arithmetic.h"
#include "real/cuda/status.h"
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

// --- Small copies to the host, for checks ---

// Copies `count` elements. It waits only for earlier work on blocking streams: synchronize the stream that wrote first.
template <typename Element>
Status fetch(const Element* from, std::int64_t count, std::vector<Element>& to) {
  to.resize(static_cast<std::size_t>(count));
  const std::size_t bytes = to.size() * sizeof(Element);
  return outcome(cudaMemcpy(to.data(), from, bytes, cudaMemcpyDeviceToHost), "copying to the host");
}

// Copies every `stride`-th element from `from` on.
template <typename Element>
Status fetch_strided(const Element* from, std::int64_t count, std::int64_t stride, std::vector<Element>& to) {
  if (stride == 1) return fetch(from, count, to);
  to.resize(static_cast<std::size_t>(count));
  return outcome(cudaMemcpy2D(to.data(), sizeof(Element), from, static_cast<std::size_t>(stride) * sizeof(Element),
                              sizeof(Element), static_cast<std::size_t>(count), cudaMemcpyDeviceToHost),
                 "copying to the host");
}

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
