#include "sim/interval/step_spread.h"

#include <algorithm>
#include <utility>

#include "sim/interval/interval.h"
#include "sim/predict/predictor.h"

namespace plumbline::sim {
namespace {

constexpr double least_exponent = 0, most_exponent = 2;

double usual_limit(const Inputs& inputs) {
  const auto reference = inputs.profile.find("power.reference_limit");
  return reference ? inputs.profile.parameters()[*reference].value : inputs.cluster.device.tdp;
}

model::Result<double> seconds_with(Inputs inputs, std::optional<double> exponent) {
  inputs.power_exponent = exponent;
  const model::Plan plan = inputs.plan;
  return TRY(Predictor(std::move(inputs)).closed_form(plan)).step.time_s;
}

}  // namespace

model::Result<std::optional<std::array<double, 2>>> power_span(const Inputs& inputs, double step_s) {
  const std::optional<double> limit = inputs.plan.cluster.power_limit_w;
  using Span = std::optional<std::array<double, 2>>;
  if (!limit || *limit >= usual_limit(inputs)) return Span();
  const double now = TRY(seconds_with(inputs, std::nullopt));
  const double at_least = TRY(seconds_with(inputs, least_exponent)), at_most = TRY(seconds_with(inputs, most_exponent));
  const double one = step_s * at_least / now, other = step_s * at_most / now;
  return Span({std::min({one, other, step_s}), std::max({one, other, step_s})});
}

model::Result<std::optional<StepDraws>> add_spread(const Inputs& inputs, model::StepResult& result,
                                                   const std::optional<IntervalOptions>& options) {
  if (options) TRY(check_draws(*options));
  result.power_span_s = TRY(power_span(inputs, result.step.time_s));
  add_fit(inputs, result.memory, options.value_or(IntervalOptions()));
  if (!options) return std::nullopt;
  auto drawn = TRY(unless_stopped(draw_interval(inputs, result, *options)));
  if (!drawn) return std::nullopt;
  result.interval = std::move(drawn->interval);
  return std::move(drawn->draws);
}

}  // namespace plumbline::sim
