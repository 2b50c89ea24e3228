#include "sim/interval/hypercube.h"

#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "model/base/bytes.h"
#include "model/base/random.h"
#include "model/result/result.h"

namespace plumbline::sim {
namespace {

// Returns the quantile of a probability up to a half: Abramowitz and Stegun 26.2.23, whose error is below 4.5e-4, and
// two of Halley's steps on the distribution function.
double lower_quantile(double probability) {
  const double t = std::sqrt(-2 * std::log(probability));
  double z = (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))) - t;
  for (int step = 0; step < 2; ++step) {
    const double error = std::erfc(-z / std::numbers::sqrt2) / 2 - probability;
    const double newton = error * std::sqrt(2 * std::numbers::pi) * std::exp(z * z / 2);
    z -= newton / (1 + z * newton / 2);
  }
  return z;
}

}  // namespace

double normal_quantile(double probability) {
  return probability <= 0.5 ? lower_quantile(probability) : -lower_quantile(1 - probability);
}

std::vector<double> uniform_column(std::string_view key, std::uint64_t seed, std::size_t draws) {
  model::Random random(model::hash_of(key) ^ model::Random(seed).next());
  std::vector<std::size_t> strata(draws);
  std::iota(strata.begin(), strata.end(), std::size_t{0});
  for (std::size_t left = draws; left > 1; --left) std::swap(strata[left - 1], strata[random.next() % left]);
  std::vector<double> column;
  for (const std::size_t stratum : strata)
    column.push_back((static_cast<double>(stratum) + random.uniform()) / static_cast<double>(draws));
  return column;
}

std::vector<double> normal_column(std::string_view key, std::uint64_t seed, std::size_t draws) {
  std::vector<double> column = uniform_column(key, seed, draws);
  for (double& value : column) value = normal_quantile(value);
  return column;
}

double linear(const Prior& spread, double z) {
  return spread.middle + z / model::normal_p90 * (z < 0 ? spread.middle - spread.low : spread.high - spread.middle);
}

double geometric(const Prior& spread, double z) {
  return std::exp(linear({std::log(spread.low), std::log(spread.middle), std::log(spread.high)}, z));
}

}  // namespace plumbline::sim
