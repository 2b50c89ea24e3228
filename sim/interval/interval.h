// Intervals of predictions, from draws through the closed form. docs/intervals.md explains the method.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "model/economics/ownership.h"
#include "model/result/result.h"
#include "sim/interval/step_draws.h"
#include "sim/predict/inputs.h"
#include "sim/serving/serving.h"

namespace plumbline::sim {

struct DrawnInterval {
  model::PredictionInterval interval;
  StepDraws draws;  // behind it
};
// Returns the interval of a result that was predicted from the inputs, at any fidelity: the draws' ratios times its
// step, what is left, and the range of the price; and its draws. Errors: those of Predictor::closed_form() on the plan
// as it is.
model::Result<DrawnInterval> draw_interval(const Inputs& inputs, const model::StepResult& result,
                                           const IntervalOptions& options);
// Returns the same without the draws.
inline model::Result<model::PredictionInterval> interval_of(const Inputs& inputs, const model::StepResult& result,
                                                            const IntervalOptions& options = {}) {
  return TRY(draw_interval(inputs, result, options)).interval;
}

// Sets the probability that the memory of a prediction fits, as the interval of the same options has it.
void add_fit(const Inputs& inputs, model::Memory& memory, const IntervalOptions& options = {});

// Sets the probability that a deployment runs: its pools hold weights, activations, libraries and a request's keys and
// values in the share of the memory that the engine takes, by what is not known of memory (uncertainty.h). Peaks of
// engines that serve were not measured, so nothing is left between predicted and measured ones.
void add_fit(const Inputs& inputs, model::ServingResult& result, const IntervalOptions& options = {});

// Returns the interval of a deployment that serves, at the requests in flight of its result: constants and shapes, the
// load of experts, what is left of the engine, the price. Errors: those of ServingPredictor::predict().
model::Result<model::ServingInterval> serving_interval_of(const Inputs& inputs, const model::ServingResult& result,
                                                          const IntervalOptions& options = {.draws = serving_draws});

// Returns the same, and its draws: of each the times and rates over those of the inputs as they are. The same index is
// the same draw in every deployment.
struct DrawnServing {
  struct Time {
    std::vector<double> ratio;  // without what is left
    Left left;
    std::vector<double> least;  // the same, below which it is in no case; empty: nothing
  };
  model::ServingInterval interval;
  Time tpot, ttft;
  std::vector<double> tpot_ratio, rate_ratio;  // of time per output token and output tokens/s, times what is left
  struct {
    DrawnSpread tpot, rate, ttft;
  } drawn;  // of the ratios without what is left
};
model::Result<DrawnServing> draw_serving_interval(const Inputs& inputs, const model::ServingResult& result,
                                                  const IntervalOptions& options = {.draws = serving_draws});

// Returns factors on times within which a share of `confidence` of the cases lie together; that of a time without limit
// in the plan is 1. Where both have one, pairs trade the one for the other; `slack`: up to which the limits are kept.
std::vector<ServingMargin> margins_of(const model::Plan& plan, const DrawnServing& drawn, const ServingMargin& slack,
                                      double confidence);

// Returns the predictor with the margin within which limits of the inputs' plan hold in that share of its own draws; of
// several the one that leaves most requests in flight. How wide draws are depends on these, which the plan leaves open,
// so that they are found in rounds: a margin of many requests is not that of the few that it leaves. Where it leaves
// none, the next round has that of one request.
// Where not even one request keeps the limits in so many of its own draws, predictions fail, as these do: errors are
// those without a margin.
model::Result<ServingPredictor> serving_within(const Inputs& inputs, ServingPredictor serving, double confidence,
                                               const IntervalOptions& options = {.draws = serving_draws});

// Predicts the inputs' plan, with its frontier and interval, such that its limits hold in that share of the draws.
// Where it was stopped before there were draws, the limits are those of the prediction alone, and there is no interval.
model::Result<model::ServingResult> predict_serving_within(const Inputs& inputs, double confidence,
                                                           const IntervalOptions& options = {.draws = serving_draws});

// Returns draws of a price over its value: between its ends, half of them below it. Equal keys have equal draws.
std::vector<double> price_draws(const model::HourlyPrice& price, std::string_view key, std::uint64_t seed,
                                std::size_t draws);

using PartOfStep = std::function<std::optional<double>(const model::StepTimes&)>;
// Returns the interval of a part of the step (of its slots, its bubble): `value` in the result times the draws' ratios,
// with what is left in proportion to the time. Nothing where the step as it is has no such part.
std::optional<model::Quantiles> part_interval(const StepDraws& draws, const Left& left, double value,
                                              const PartOfStep& part);

// How far a predicted step may be from its measurement, as the results of all programs state it.

// Returns the least and the most that a step of `step_s` seconds takes when power.clock_exponent is anything from 0
// (the energy of a FLOP does not depend on the clock) to 2 (the voltage goes with the clock). Each exponent has
// energies that give the same step at the limit to which the profile's rates or the device's tdp belong. The ratios are
// those of the closed form. Returns nullopt unless the plan gives a limit below that one. Errors are those of
// Predictor::closed_form().
model::Result<std::optional<std::array<double, 2>>> power_span(const Inputs& inputs, double step_s);

// Adds to a result whether it fits in memory, what the limit of power leaves open and, with options, its interval, of
// which there is none where it was stopped. Returns the draws behind the interval.
// Errors: those of power_span() and draw_interval().
model::Result<std::optional<StepDraws>> add_spread(const Inputs& inputs, model::StepResult& result,
                                                   const std::optional<IntervalOptions>& options);

}  // namespace plumbline::sim
