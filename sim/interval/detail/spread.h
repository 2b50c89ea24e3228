// Uncertain values between what sources state, and what the slowest of many machines takes.
#pragma once

#include <cstdint>

#include "sim/cluster/fleet_priors.h"

namespace plumbline::sim {

// Eight of ten values lie between low and high, half of them below the middle.
struct Spread {
  double low = 0, middle = 0, high = 0;
};
inline Spread spread_of(const Prior& prior) { return {prior.low, prior.middle, prior.high}; }

// Returns the value at a standard normal z: the middle at 0, low and high at -1.28 and +1.28, linear between and beyond
// them.
double linear(const Spread& spread, double z);
// Returns the same for a value above 0 whose logarithm is linear.
double geometric(const Spread& spread, double z);

// Returns the expected largest of n independent standard normal numbers, 0 for one:
//   integral of 1 - Phi(x)^n over x > 0, less that of Phi(x)^n over x < 0.
double expected_largest(std::int64_t n);

}  // namespace plumbline::sim
