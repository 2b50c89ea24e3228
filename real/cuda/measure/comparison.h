// Compares results with double precision.
#pragma once

#include <cmath>

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

}  // namespace plumbline::real::cuda
