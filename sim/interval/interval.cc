#include "sim/interval/interval.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/interval/detail/parts.h"
#include "sim/interval/hypercube.h"
#include "sim/predict/predictor.h"

namespace plumbline::sim {
namespace {

constexpr std::string_view allocator_source = "allocator", price_source = "price";

// Returns the quantile of a price whose median is its value, so that the middle of a cost is that of the stated price;
// on either side the density falls linearly to the end.
double price_at(const model::HourlyPrice& price, double probability) {
  return probability < 0.5 ? price.low + (price.value - price.low) * std::sqrt(2 * probability)
                           : price.high - (price.high - price.value) * std::sqrt(2 * (1 - probability));
}

// Returns the cost of a run for each draw of its time, at prices between the ends of its range.
std::vector<double> costs_of(double cost_usd, const model::HourlyPrice& price, const std::vector<double>& ratios,
                             const IntervalOptions& options) {
  std::vector<double> costs = price_draws(price, price_source, options.seed, ratios.size());
  for (std::size_t i = 0; i < ratios.size(); ++i) costs[i] *= cost_usd * ratios[i];
  return costs;
}

model::Quantiles scaled(const model::Quantiles& quantiles, double factor) {
  return {quantiles.p10 * factor, quantiles.p50 * factor, quantiles.p90 * factor};
}

std::optional<Left> left_of(const std::optional<Left>& left, std::string_view source, const IntervalOptions& options) {
  return options.without.contains(std::string(source)) ? std::nullopt : left;
}

// Sets what an interval has of memory. Nothing else that is uncertain changes a peak, and the draws of these few are
// soon there: all of them, also where the interval is stopped.
void add_peaks(const Inputs& inputs, const model::Memory& memory, IntervalOptions options,
               model::PredictionInterval& interval) {
  options.watch = {};
  Drawn drawn;
  for (const auto add : {add_load, add_allocator}) add(inputs, drawn.uncertainties);
  static_cast<void>(draw_numbers(options, drawn));  // not watched, it ends
  DrawnPeaks of(inputs, memory, options.peak);
  std::vector<PeakDraw> peaks;
  for (std::size_t row = 0; row < options.draws; ++row) peaks.push_back(of.of(change_of(drawn, row)));
  set_memory(peaks, left_of(inputs.memory_left, allocator_source, options), memory, interval);
}

model::PredictionInterval without_parts(const Drawn& drawn, const Inputs& inputs, const model::StepResult& result,
                                        const IntervalOptions& options) {
  const Left left = left_of(inputs.left, left_source, options).value_or(Left{});
  model::PredictionInterval interval;
  interval.draws = drawn.draws.steps.size();
  interval.left_factor = std::exp(left.location);
  interval.left_rows = left.rows;
  const std::vector<double>& ratios = drawn.draws.time_ratio;
  const model::Quantiles time = quantiles_of(ratios, left);
  interval.time_s = scaled(time, result.step.time_s);
  const double tokens = result.step.tokens_per_s;
  interval.tokens_per_s = {tokens / time.p90, tokens / time.p50, tokens / time.p10};
  if (result.run) {
    interval.days = scaled(time, result.run->days);
    interval.gpu_hours = scaled(time, result.run->gpu_hours);
    if (const auto& price = result.run->price().value)
      interval.cost_usd = quantiles_of(costs_of(*result.run->cost_usd, *price, ratios, options), left);
  }
  add_peaks(inputs, result.memory, options, interval);
  return interval;
}

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

void add_fit(const Inputs& inputs, model::Memory& memory, const IntervalOptions& options) {
  model::PredictionInterval interval;
  add_peaks(inputs, memory, options, interval);
  memory.fits_probability = interval.fits_probability;
}

model::Result<DrawnInterval> draw_interval(const Inputs& inputs, const model::StepResult& result,
                                           const IntervalOptions& options) {
  Drawn drawn = TRY(draw(inputs, options));
  model::PredictionInterval interval = without_parts(drawn, inputs, result, options);
  if (options.parts && drawn.whole)
    interval.parts = parts_of(drawn, left_of(inputs.left, left_source, options).value_or(Left{}));
  return DrawnInterval{std::move(interval), std::move(drawn.draws)};
}

std::vector<double> price_draws(const model::HourlyPrice& price, std::string_view key, std::uint64_t seed,
                                std::size_t draws) {
  std::vector<double> factors = uniform_column(key, seed, draws);
  for (double& factor : factors) factor = price_at(price, factor) / price.value;
  return factors;
}

std::optional<model::Quantiles> part_interval(const StepDraws& draws, const Left& left, double value,
                                              const PartOfStep& part) {
  const std::optional<double> whole = part(draws.step);
  if (!whole || *whole <= 0) return std::nullopt;
  std::vector<double> ratios;
  for (std::size_t i = 0; i < draws.steps.size(); ++i) {
    const double longer = draws.time_ratio[i] * draws.step.time_s / draws.steps[i].time_s;
    ratios.push_back(part(draws.steps[i]).value_or(0) / *whole * longer);
  }
  return scaled(quantiles_of(ratios, left), value);
}

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
  if (options) {
    TRY(check_draws(*options));
    options->watch.begin();
  }
  result.power_span_s = TRY(power_span(inputs, result.step.time_s));
  add_fit(inputs, result.memory, options.value_or(IntervalOptions()));
  if (!options) return std::nullopt;
  auto drawn = TRY(unless_stopped(draw_interval(inputs, result, *options)));
  if (!drawn) return std::nullopt;
  result.interval = std::move(drawn->interval);
  return std::move(drawn->draws);
}

}  // namespace plumbline::sim
