// Intervals of predictions, from draws through the closed form. docs/intervals.md explains the method.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "model/economics/ownership.h"
#include "model/result/prediction_interval.h"
#include "model/result/result.h"
#include "sim/interval/left.h"
#include "sim/predict/inputs.h"

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

struct IntervalOptions {
  std::size_t draws = 128;
  std::uint64_t seed = 1;
  unsigned threads = 0;                // 0: one per core; the result does not depend on it
  std::set<std::string> without = {};  // sources that are taken as known (IntervalPart::source)
  PeakOf peak = PeakOf::device;        // what peak_bytes is of; fits_probability is always of the device
};

// The predictions of one plan, draw by draw. The same index is the same draw in every plan, so that plans can be
// compared draw by draw.
struct StepDraws {
  std::vector<double> time_ratio;  // of the drawn closed form over that of the inputs as they are
  // The step of the inputs as they are, and the drawn ones without what makes a whole step longer (which time_ratio
  // contains): times of slots and bubble, no rates, chunks and power.
  model::StepTimes step;
  std::vector<model::StepTimes> steps;
};

// Returns the draws of everything but what is left. Errors: those of Predictor::closed_form() on the plan as it is.
model::Result<StepDraws> draw_steps(const Inputs& inputs, const IntervalOptions& options = {});

// Returns the interval of a result that was predicted from the inputs, at any fidelity: the draws' ratios times its
// step, what is left, and the range of the price. Errors: as draw_steps().
model::Result<model::PredictionInterval> interval_of(const Inputs& inputs, const model::StepResult& result,
                                                     const IntervalOptions& options = {});

// Returns the same without parts, and its draws.
struct DrawnInterval {
  model::PredictionInterval interval;
  StepDraws draws;
};
model::Result<DrawnInterval> draw_interval(const Inputs& inputs, const model::StepResult& result,
                                           const IntervalOptions& options = {});

// Returns draws of a price over its value: triangular between its ends. Equal keys have equal draws.
std::vector<double> price_draws(const model::HourlyPrice& price, std::string_view key, std::uint64_t seed,
                                std::size_t draws);

using PartOfStep = std::function<std::optional<double>(const model::StepTimes&)>;
// Returns the interval of a part of the step (of its slots, its bubble): `value` in the result times the draws' ratios,
// with what is left in proportion to the time. Nothing where the step as it is has no such part.
std::optional<model::Quantiles> part_interval(const StepDraws& draws, const Left& left, double value,
                                              const PartOfStep& part);

}  // namespace plumbline::sim
