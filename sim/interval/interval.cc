#include "sim/interval/interval.h"

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "model/economics/economics.h"
#include "sim/interval/detail/draws.h"
#include "sim/interval/detail/parts.h"
#include "sim/interval/detail/peak.h"
#include "sim/interval/hypercube.h"

namespace plumbline::sim {

namespace {

constexpr std::string_view allocator_source = "allocator", price_key = "price";

// Returns the quantile of a triangular distribution.
double triangular(double low, double mode, double high, double probability) {
  if (high <= low) return mode;
  const double rise = (mode - low) / (high - low);
  return probability < rise ? low + std::sqrt(probability * (high - low) * (mode - low))
                            : high - std::sqrt((1 - probability) * (high - low) * (high - mode));
}

// Returns the cost of a run for each draw of its time, at prices between the ends of its range.
std::vector<double> costs_of(const model::RunCost& run, const model::HourlyPrice& price,
                             const std::vector<double>& ratios, const IntervalOptions& options) {
  const std::vector<double> column = uniform_column(price_key, options.seed, ratios.size());
  std::vector<double> costs;
  for (std::size_t i = 0; i < ratios.size(); ++i)
    costs.push_back(run.gpu_hours * ratios[i] * triangular(price.low, price.value, price.high, column[i]));
  return costs;
}

model::Quantiles scaled(const model::Quantiles& quantiles, double factor) {
  return {quantiles.p10 * factor, quantiles.p50 * factor, quantiles.p90 * factor};
}

std::optional<Left> left_of(const std::optional<Left>& left, std::string_view source, const IntervalOptions& options) {
  return options.without.contains(std::string(source)) ? std::nullopt : left;
}

}  // namespace

model::Result<model::PredictionInterval> interval_of(const Inputs& inputs, const model::StepResult& result,
                                                     const IntervalOptions& options) {
  const Drawn drawn = TRY(draw(inputs, options, true));
  const Left left = left_of(inputs.left, left_source, options).value_or(Left{});
  model::PredictionInterval interval;
  interval.draws = options.draws;
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
      interval.cost_usd = quantiles_of(costs_of(*result.run, *price, ratios, options), left);
  }
  std::vector<PeakDraw> peaks;
  for (std::size_t row = 0; row < options.draws; ++row)
    peaks.push_back(drawn_peak(inputs, result.memory, change_of(drawn, row)));
  set_memory(peaks, left_of(inputs.memory_left, allocator_source, options), result.memory.capacity_bytes, interval);
  interval.parts = parts_of(drawn, left);
  return interval;
}

std::vector<double> times_with_left(const StepDraws& draws, double step_s, const Left& left, const std::string& plan,
                                    std::size_t copies) {
  constexpr std::uint64_t seed = 1;  // equal left parts of two plans are equal draws, whatever their other draws are
  const std::size_t count = draws.time_ratio.size() * copies;
  const std::vector<double> common = normal_column("what is left of " + left.rows, seed, count);
  const std::vector<double> own = normal_column("what is left of plan " + plan, seed, count);
  std::vector<double> times;
  for (std::size_t i = 0; i < count; ++i)
    times.push_back(step_s * draws.time_ratio[i / copies] *
                    std::exp(left.location + left.common * common[i] + left.own * own[i]));
  return times;
}

}  // namespace plumbline::sim
