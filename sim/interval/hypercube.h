// Standard normal numbers: uncertain values of them, and draws by Latin hypercube: every number of a column lies in a
// stratum of its own, and each of the strata has the same probability. A column depends on its key, the seed and its
// length alone, so that equal facts have equal draws in every plan, with any number of threads and on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/cluster/fleet_priors.h"

namespace plumbline::sim {

// Returns z with the probability of a standard normal number below z, 0 < probability < 1, to 1e-12.
double normal_quantile(double probability);

// Returns the column of a key, uniform in (0, 1), and the same as standard normal numbers.
std::vector<double> uniform_column(std::string_view key, std::uint64_t seed, std::size_t draws);
std::vector<double> normal_column(std::string_view key, std::uint64_t seed, std::size_t draws);

// Returns the value at a standard normal z: the middle at 0, low and high at -1.28 and +1.28, linear between and beyond
// them.
double linear(const Prior& spread, double z);
// Returns the same for a value above 0 whose logarithm is linear.
double geometric(const Prior& spread, double z);

}  // namespace plumbline::sim
