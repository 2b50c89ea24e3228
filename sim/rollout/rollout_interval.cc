// Intervals of steps of reinforcement learning, from the draws of both halves, and results that have both.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/interval/hypercube.h"
#include "sim/interval/interval.h"
#include "sim/rollout/rollout.h"
#include "sim/serving/serving.h"
#include "sim/tasks/watch.h"

namespace plumbline::sim {
namespace {

constexpr std::size_t copies_of_draw = 16;  // values of what is left of the updates for each draw

// Returns the draws of an update over its prediction, with what is left of steps.
std::vector<double> update_ratios(const Inputs& inputs, const std::vector<double>& drawn, std::uint64_t seed) {
  const Left left = inputs.left.value_or(Left{});
  const double deviation = std::hypot(left.common, left.own);
  std::vector<double> ratios = normal_column("what is left of updates", seed, drawn.size() * copies_of_draw);
  for (std::size_t i = 0; i < ratios.size(); ++i)
    ratios[i] = drawn[i / copies_of_draw] * std::exp(left.location + deviation * ratios[i]);
  return ratios;
}

// Returns the draws of a decode step over its prediction, with what is left of the engine, at the answers in flight.
model::Result<std::vector<double>> decode_ratios(const Inputs& inputs, const model::RolloutResult& rollout,
                                                 IntervalOptions options) {
  Inputs engines = *inputs.engines;
  engines.plan.inference.concurrency =
      std::max<std::int64_t>(1, std::llround(rollout.requests_at_once)) * rollout.instances;
  const auto serving = TRY(predict_serving(engines));
  options.parts = false;
  return TRY(draw_serving_interval(engines, serving, options)).tpot_ratio;
}

}  // namespace

model::Result<void> add_rollout_interval(const Inputs& inputs, model::StepResult& update, const StepDraws& draws,
                                         const IntervalOptions& options) {
  model::RolloutResult& rollout = *update.rollout;
  const std::vector<double> training = update_ratios(inputs, draws.time_ratio, options.seed);
  const auto decode = TRY(unless_stopped(decode_ratios(inputs, rollout, options)));
  if (!decode) return {};
  std::vector<double> steps;
  for (std::size_t i = 0; i < std::min(training.size(), decode->size() * copies_of_draw); ++i)
    steps.push_back(rollout.step_with((*decode)[i / copies_of_draw], training[i]));
  rollout.interval_s = model::quantiles_of(std::move(steps));
  return {};
}

model::Result<void> add_rollout(const Inputs& inputs, model::StepResult& update, const std::optional<StepDraws>& draws,
                                const IntervalOptions& options) {
  if (!inputs.engines) return {};
  auto rollout = predict_rollout(inputs, update);
  if (!rollout && rollout.error().kind == model::ErrorKind::input) return tl::unexpected(rollout.error());
  if (!rollout) {
    update.rollout_error = std::move(rollout.error());
    return {};
  }
  update.rollout = std::move(*rollout);
  return draws ? add_rollout_interval(inputs, update, *draws, options) : model::Result<void>();
}

}  // namespace plumbline::sim
