// A small deterministic random generator (SplitMix64, Steele et al. 2014): the same seed gives the same
// numbers with every compiler and library, which <random>'s distributions do not promise.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace plumbline::model {

class Random {
 public:
  // `drawn`: how many calls of next() are taken as done, so that any number of a sequence can be had alone.
  explicit Random(std::uint64_t seed, std::uint64_t drawn = 0) : state_(seed + drawn * increment) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += increment);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  // Uniform in (0, 1).
  double uniform() { return (static_cast<double>(next() >> 11) + 0.5) * 0x1.0p-53; }
  // Standard normal (Box-Muller), of two calls of next().
  double normal() { return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::numbers::pi * uniform()); }

 private:
  static constexpr std::uint64_t increment = 0x9e3779b97f4a7c15ULL;
  std::uint64_t state_;
};

}  // namespace plumbline::model
