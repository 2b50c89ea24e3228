// A small deterministic random generator (SplitMix64, Steele et al. 2014). A seed gives the same numbers with every
// compiler and library, which the distributions of <random> do not guarantee.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace plumbline::model {

// Mixes the bits of a number: SplitMix64's output function, one to one.
inline std::uint64_t mixed(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

// Returns a nearly normal number of mean 0 and standard deviation 1 from 64 random bits, in a few instructions: the sum
// of their eight bytes, with the kurtosis corrected (Cornish and Fisher 1938). One of 1000 lies above 3.06 (normal:
// 3.09), one of 10,000 above 3.63 (3.72), none above 5.5.
inline double nearly_normal(std::uint64_t bits) {
  constexpr std::uint64_t low_bytes = 0x00ff00ff00ff00ffULL;
  const std::uint64_t pairs = (bits & low_bytes) + ((bits >> 8) & low_bytes);
  const auto sum = static_cast<double>((pairs * 0x0001000100010001ULL) >> 48);
  constexpr double mean = 8 * 127.5, deviation = 209.02152999;  // sqrt(8 (256^2 - 1) / 12)
  constexpr double excess = -1.2 / 8;                           // kurtosis of the sum, over 3
  const double z = (sum - mean) / deviation;
  return z - excess / 24 * z * (z * z - 3);
}

class Random {
 public:
  // `drawn` is the number of skipped calls of next(), for access to any number of a sequence.
  explicit Random(std::uint64_t seed, std::uint64_t drawn = 0) : state_(seed + drawn * increment) {}

  std::uint64_t next() { return mixed(state_ += increment); }
  // Returns a number uniform in (0, 1).
  double uniform() { return (static_cast<double>(next() >> 11) + 0.5) * 0x1.0p-53; }
  // Returns a standard normal number (Box-Muller) from two calls of next().
  double normal() { return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::numbers::pi * uniform()); }

 private:
  static constexpr std::uint64_t increment = 0x9e3779b97f4a7c15ULL;
  std::uint64_t state_;
};

}  // namespace plumbline::model
