// Intervals of steps of reinforcement learning, from the draws of both halves.
#include <algorithm>
#include <cmath>
#include <string_view>
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
model::Result<std::vector<double>> update_ratios(const Inputs& inputs, const model::StepResult& update,
                                                 const IntervalOptions& options) {
  const auto drawn = TRY(draw_interval(inputs, update, options));
  const Left left = inputs.left.value_or(Left{});
  const double deviation = std::hypot(left.common, left.own);
  const std::size_t draws = drawn.draws.time_ratio.size();  // fewer than asked for where it was stopped
  const std::vector<double> numbers = normal_column("what is left of updates", options.seed, draws * copies_of_draw);
  std::vector<double> ratios;
  for (std::size_t i = 0; i < numbers.size(); ++i)
    ratios.push_back(drawn.draws.time_ratio[i / copies_of_draw] * std::exp(left.location + deviation * numbers[i]));
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

model::Result<void> add_rollout_interval(const Inputs& inputs, model::StepResult& update,
                                         const IntervalOptions& options) {
  model::RolloutResult& rollout = *update.rollout;
  const auto training = TRY(unless_stopped(update_ratios(inputs, update, options)));
  if (!training) return {};
  const auto decode = TRY(unless_stopped(decode_ratios(inputs, rollout, options)));
  if (!decode) return {};
  const bool at_once = rollout.placement == "asynchronous";
  std::vector<double> steps;
  for (std::size_t i = 0; i < std::min(training->size(), decode->size() * copies_of_draw); ++i) {
    double both = 0, engines = 0, trainers = 0;
    for (const model::RolloutPart& part : rollout.parts) {
      if (part.pool == "engines") engines += part.seconds * (*decode)[i / copies_of_draw];
      if (part.pool == "training") trainers += part.seconds * (*training)[i];
      if (part.pool == "hosts") trainers += part.seconds;
      if (part.pool == "all") both += part.seconds;
    }
    steps.push_back(both + (at_once ? std::max(engines, trainers) : engines + trainers));
  }
  rollout.interval_s = model::quantiles_of(std::move(steps));
  return {};
}

}  // namespace plumbline::sim
