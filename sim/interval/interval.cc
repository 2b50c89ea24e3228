#include "sim/interval/interval.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <numbers>
#include <numeric>
#include <optional>
#include <string>
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
  interval.time_s = time.scaled(result.step.time_s);
  const double tokens = result.step.tokens_per_s;
  interval.tokens_per_s = {tokens / time.p90, tokens / time.p50, tokens / time.p10};
  if (result.run) {
    interval.days = time.scaled(result.run->days);
    interval.gpu_hours = time.scaled(result.run->gpu_hours);
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

constexpr double least_share = 1e-3;

using Column = std::vector<double>;

Column centered(Column values) {
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  for (double& value : values) value -= mean;
  return values;
}

double product(const Column& a, const Column& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }

// Returns the coefficients of least squares of y on the columns, whose effects are nearly additive: a coefficient is 1
// with a standard deviation of a half before the draws are seen, which holds those of columns that are smaller than the
// rest of y. The normal equations are eliminated; a column without variance keeps its 1.
Column coefficients_of(const std::vector<Column>& columns, Column y) {
  constexpr double prior_deviation = 0.5, rounding = 1e-10;
  const std::size_t n = columns.size();
  for (const Column& column : columns)
    for (std::size_t i = 0; i < y.size(); ++i) y[i] -= column[i];
  const double prior = product(y, y) / static_cast<double>(y.size()) / (prior_deviation * prior_deviation);
  std::vector<Column> rows(n, Column(n + 1));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) rows[i][j] = product(columns[i], columns[j]) + (i == j ? prior : 0);
    rows[i][n] = product(columns[i], y);
  }
  std::vector<bool> used(n, false);
  for (std::size_t pivot = 0; pivot < n; ++pivot) {
    if (rows[pivot][pivot] <= rounding * product(columns[pivot], columns[pivot])) continue;
    used[pivot] = true;
    for (std::size_t i = 0; i < n; ++i) {
      if (i == pivot) continue;
      const double factor = rows[i][pivot] / rows[pivot][pivot];
      for (std::size_t j = pivot; j <= n; ++j) rows[i][j] -= factor * rows[pivot][j];
    }
  }
  Column coefficients(n, 1);
  for (std::size_t i = 0; i < n; ++i)
    if (used[i]) coefficients[i] += rows[i][n] / rows[i][i];
  return coefficients;
}

// The sources of a plan's uncertainties and their part of each draw's ln(time).
class Sources {
 public:
  explicit Sources(const Drawn& drawn) : drawn_(drawn), log_time_(drawn.draws.time_ratio) {
    for (double& value : log_time_) value = std::log(value);
    log_time_ = centered(std::move(log_time_));
    for (std::size_t u = 0; u < drawn.uncertainties.size(); ++u) {
      if (drawn.gradient[u] == 0) continue;
      const auto [place, fresh] = places_.try_emplace(drawn.uncertainties[u].source, names_.size());
      if (fresh) {
        names_.push_back(drawn.uncertainties[u].source);
        scores_.emplace_back(log_time_.size(), 0.0);
      }
      for (std::size_t i = 0; i < log_time_.size(); ++i) scores_[place->second][i] += drawn.gradient[u] * drawn.z[u][i];
    }
    for (Column& score : scores_) score = centered(std::move(score));
    coefficients_ = coefficients_of(scores_, log_time_);
  }

  // Returns the variance of ln(time), and the part of it by source.
  std::pair<double, std::map<std::string, double>> variances() const {
    const auto draws = static_cast<double>(log_time_.size());
    const double whole = product(log_time_, log_time_) / draws;
    std::map<std::string, double> parts;
    double sum = 0;
    for (std::size_t s = 0; s < names_.size(); ++s)
      sum += parts[names_[s]] = std::max(0.0, coefficients_[s] * product(scores_[s], log_time_) / draws);
    for (auto& [source, part] : parts) part *= sum > 0 ? whole / sum : 0;
    return {whole, parts};
  }

  // Returns the variance of ln(time) over the draws once something is measured.
  double variance_after(const std::string& measurement) const {
    Column rest = log_time_;
    for (std::size_t u = 0; u < drawn_.uncertainties.size(); ++u) {
      const Uncertainty& one = drawn_.uncertainties[u];
      if (drawn_.gradient[u] == 0 || one.measurement != measurement) continue;
      const double slope = (1 - one.after) * coefficients_[places_.at(one.source)] * drawn_.gradient[u];
      for (std::size_t i = 0; i < rest.size(); ++i) rest[i] -= slope * drawn_.z[u][i];
    }
    rest = centered(std::move(rest));
    return product(rest, rest) / static_cast<double>(rest.size());
  }

 private:
  const Drawn& drawn_;
  Column log_time_;
  std::map<std::string, std::size_t> places_;
  std::vector<std::string> names_;
  std::vector<Column> scores_;
  Column coefficients_;
};

// The measurement of a source after which the interval is narrowest.
class Best {
 public:
  explicit Best(double now) : now_(now) {}
  void offer(const std::string& source, const std::string& measurement, double half_width) {
    if (half_width >= now_) return;
    auto& best = best_.try_emplace(source, measurement, half_width).first->second;
    if (half_width < best.second) best = {measurement, half_width};
  }
  void fill(model::IntervalPart& part) const {
    const auto best = best_.find(part.source);
    if (best == best_.end()) return;
    part.measurement = best->second.first;
    part.half_width_after = best->second.second;
  }

 private:
  double now_;
  std::map<std::string, std::pair<std::string, double>> best_;
};

// Returns the best measurement of each source; `whole` is the variance of ln(time) with what is left. Quantiles of
// conditioned draws would be as uncertain as what a small source adds, so the half-width goes with the deviation.
Best best_measurements(const Drawn& drawn, const Sources& sources, const Left& left, double whole) {
  const double now = quantiles_of(drawn.draws.time_ratio, left).half_width();
  std::map<std::string, double> half_widths;
  const auto half_width = [&](const std::string& measurement) {
    const auto [known, fresh] = half_widths.try_emplace(measurement, 0);
    if (!fresh) return known->second;
    const double left_after = std::hypot(measurement == step_measurement ? 0 : left.common, left.own);
    const double after = sources.variance_after(measurement) + left_after * left_after;
    return known->second = now * std::sqrt(after / whole);
  };
  Best best(now);
  for (std::size_t u = 0; u < drawn.uncertainties.size(); ++u) {
    const Uncertainty& one = drawn.uncertainties[u];
    if (drawn.gradient[u] == 0 || one.measurement.empty() || one.after >= 1) continue;
    best.offer(one.source, one.measurement, half_width(one.measurement));
  }
  if (left.common > 0)
    best.offer(std::string(left_source), std::string(step_measurement), half_width(std::string(step_measurement)));
  return best;
}

double deviation_of(const Left& left) { return std::hypot(left.common, left.own); }

// Returns logarithms between which the draws times what is left lie.
struct Ends {
  double low = 0, high = 0;
};
Ends ends_of(const std::vector<double>& draws, const Left& left) {
  constexpr double reach = 6;  // standard deviations
  const auto ends = std::ranges::minmax(draws);
  const double factor = std::exp(left.location), deviation = deviation_of(left);
  return {std::log(ends.min * factor) - reach * deviation, std::log(ends.max * factor) + reach * deviation};
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
  return quantiles_of(ratios, left).scaled(value);
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

std::vector<double> probabilities_below(double most, const std::vector<double>& draws, const Left& left,
                                        const Least& least) {
  // Returns the standard normal number up to which a draw times what is left is at most `most`.
  const auto number = [most](double draw, const Left& of, double deviation) {
    const double above = std::log(most / draw) - of.location;
    if (deviation > 0) return above / deviation;
    return above >= 0 ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
  };
  const double own = deviation_of(left), of_least = deviation_of(least.left);
  std::vector<double> probabilities;
  for (std::size_t i = 0; i < draws.size(); ++i) {
    double z = number(draws[i], left, own);
    if (!least.draws.empty()) z = std::min(z, number(least.draws[i], least.left, of_least));
    probabilities.push_back(std::erfc(-z / std::numbers::sqrt2) / 2);
  }
  return probabilities;
}

double quantile_of(const std::vector<double>& draws, const Left& left, const Least& least, double probability) {
  if (deviation_of(left) == 0 && deviation_of(least.left) == 0) {
    std::vector<double> values = draws;
    for (double& value : values) value *= std::exp(left.location);
    for (std::size_t i = 0; i < least.draws.size(); ++i)
      values[i] = std::max(values[i], least.draws[i] * std::exp(least.left.location));
    return model::quantile_of(std::move(values), probability);
  }
  constexpr int halvings = 50;
  auto [low, high] = ends_of(draws, left);
  if (!least.draws.empty()) high = std::max(high, ends_of(least.draws, least.left).high);
  for (int i = 0; i < halvings; ++i) {
    const double middle = (low + high) / 2;
    const std::vector<double> below = probabilities_below(std::exp(middle), draws, left, least);
    const double mean = std::accumulate(below.begin(), below.end(), 0.0) / static_cast<double>(below.size());
    (mean < probability ? low : high) = middle;
  }
  return std::exp((low + high) / 2);
}

model::Quantiles quantiles_of(const std::vector<double>& draws, const Left& left, const Least& least) {
  const auto at = [&](double probability) { return quantile_of(draws, left, least, probability); };
  return {at(0.1), at(0.5), at(0.9)};
}

std::vector<model::IntervalPart> parts_of(const Drawn& drawn, const Left& left) {
  const Sources sources(drawn);
  auto [whole, variances] = sources.variances();
  const double left_variance = left.common * left.common + left.own * left.own;
  if (left_variance > 0) variances[std::string(left_source)] = left_variance;
  whole += left_variance;
  const Best best = best_measurements(drawn, sources, left, whole);
  std::vector<model::IntervalPart> parts;
  double kept = 0;
  for (const auto& [source, variance] : variances) {
    if (variance < least_share * whole || variance <= 0) continue;
    best.fill(parts.emplace_back(model::IntervalPart{source, variance, "", std::nullopt}));
    kept += variance;
  }
  for (model::IntervalPart& part : parts) part.share /= kept;
  std::ranges::stable_sort(parts, std::ranges::greater{}, &model::IntervalPart::share);
  return parts;
}

}  // namespace plumbline::sim
