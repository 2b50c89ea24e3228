// A small deterministic random generator (SplitMix64, Steele et al. 2014). A seed gives the same numbers with every
// compiler and library, which the distributions of <random> do not guarantee.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace plumbline::model {

class Random {
 public:
  // `drawn` is the number of skipped calls of next(), for access to any number of a sequence.
  explicit Random(std::uint64_t seed, std::uint64_t drawn = 0) : state_(seed + drawn * increment) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += increment);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  // Returns a number uniform in (0, 1).
  double uniform() { return (static_cast<double>(next() >> 11) + 0.5) * 0x1.0p-53; }
  // Returns a standard normal number (Box-Muller) from two calls of next().
  double normal() { return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::numbers::pi * uniform()); }

 private:
  static constexpr std::uint64_t increment = 0x9e3779b97f4a7c15ULL;
  std::uint64_t state_;
};

}  // namespace plumbline::model
