#include "sim/interval/detail/parts.h"

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

namespace plumbline::sim {
namespace {

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
