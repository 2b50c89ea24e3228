// What an interval is asked for, and the draws of a plan under everything that is uncertain but what is left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "model/result/result.h"
#include "sim/tasks/watch.h"

namespace plumbline::sim {

// What an uncertainty may count to (IntervalPart::source).
inline constexpr std::string_view interval_sources[] = {"GEMM constants",
                                                        "GEMM shapes",
                                                        "attention constants",
                                                        "attention shapes",
                                                        "memory-bound constants",
                                                        "memory-bound shapes",
                                                        "link and collective constants",
                                                        "collective shapes",
                                                        "all-to-all constants",
                                                        "all-to-all shapes",
                                                        "shared constants",
                                                        "host",
                                                        "software stack",
                                                        "power and silicon",
                                                        "expert load",
                                                        "jitter and slow ranks",
                                                        "what is left",
                                                        "allocator"};

// What a peak is of: all that a device holds (nvidia-smi), the segments of the framework's allocator, or its tensors.
enum class PeakOf { device, reserved, allocated };
// Returns the most bytes of a rank.
double fullest_bytes(const model::Memory& memory, PeakOf part);

// Draws of a deployment that serves, of which small shares need more than those of a step.
inline constexpr std::size_t serving_draws = 128;

// Quantiles of fewer are none; more take more memory than they are worth.
inline constexpr std::size_t fewest_draws = 16, most_draws = 65536;

struct IntervalOptions {
  std::size_t draws = 64;
  std::uint64_t seed = 1;
  unsigned threads = 0;  // 0: one per core; the result does not depend on it
  // Sources that are taken as known (IntervalPart::source), and keys of single uncertainties.
  std::set<std::string> without = {};
  PeakOf peak = PeakOf::device;  // what peak_bytes is of; fits_probability is always of the device
  // Whether the interval has its parts, which take a prediction more for each uncertainty that has an effect.
  bool parts = true;
  // An interval that is stopped rests on the predictions so far and has no parts; before there are `fewest_draws`, it
  // is an error of ErrorKind::interrupted.
  Watch watch = {};
};

// Refuses other numbers of draws (input).
inline model::Result<void> check_draws(const IntervalOptions& options) {
  if (options.draws >= fewest_draws && options.draws <= most_draws) return {};
  return model::wrong_input("draws", "must be from " + std::to_string(fewest_draws) + " to " +
                                         std::to_string(most_draws) + ", found " + std::to_string(options.draws));
}

// Refuses as few draws as an interval that was stopped may have.
inline model::Result<void> enough_draws(std::size_t draws) {
  if (draws < fewest_draws) return model::interrupted("", "stopped before there was an interval");
  return {};
}

// Mean and variance of ln(drawn / predicted).
struct DrawnSpread {
  double mean = 0, variance = 0;
  bool operator==(const DrawnSpread&) const = default;
};
DrawnSpread drawn_spread(const std::vector<double>& ratios);

// The predictions of one plan, draw by draw. The same index is the same draw in every plan, so that plans can be
// compared draw by draw.
struct StepDraws {
  std::vector<double> time_ratio;  // of the drawn closed form over that of the inputs as they are
  // The step of the inputs as they are, and the drawn ones without what makes a whole step longer (which time_ratio
  // contains): times of slots and bubble, no rates, chunks and power.
  model::StepTimes step;
  std::vector<model::StepTimes> steps;
};

}  // namespace plumbline::sim
