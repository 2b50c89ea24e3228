#include "sim/search/ranking.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <ranges>
#include <tuple>
#include <utility>

namespace plumbline::sim {
namespace {

constexpr double unknown = std::numeric_limits<double>::infinity();
constexpr std::array<std::string_view, 6> objectives = {"time",       "cost",    "gpu-hours",
                                                        "throughput", "latency", "tokens-per-dollar"};

template <std::size_t size>
using Units = std::array<std::pair<std::string_view, double>, size>;

std::optional<double> drawn(const PlanCost& cost, Objective objective, std::size_t draw) {
  auto value = measure(cost, objective);
  if (value) *value *= cost.time_draws[draw] * (objective == Objective::cost ? cost.price_draws[draw] : 1);
  return value;
}

bool below(const std::optional<double>& value, const std::optional<double>& limit, double factor = 1) {
  return !limit || (value && *value * factor <= *limit);
}

bool within(const PlanCost& cost, const Limits& limits, std::size_t draw) {
  const double time = cost.time_draws[draw];
  return below(cost.days, limits.days, time) && below(cost.usd, limits.usd, time * cost.price_draws[draw]);
}

// Returns a number above 0 times the factor of the unit that follows it, unless both together leave what a double
// holds.
template <std::size_t size>
std::optional<double> in_units(std::string_view text, const Units<size>& units) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !std::isfinite(value) || value <= 0) return std::nullopt;
  const std::string_view rest = text.substr(static_cast<std::size_t>(end - text.data()));
  const auto unit = std::ranges::find(units, rest, &Units<size>::value_type::first);
  if (unit == units.end()) return std::nullopt;
  const double amount = value * unit->second;
  if (!std::isfinite(amount) || amount <= 0) return std::nullopt;
  return amount;
}

bool same(double a, double b) {
  constexpr double rounding = 1e-9;
  return std::abs(a - b) <= rounding * std::max(std::abs(a), std::abs(b));
}

bool same(const std::optional<double>& a, const std::optional<double>& b) {
  return a.has_value() == b.has_value() && (!a || same(*a, *b));
}

}  // namespace

std::string_view to_string(Objective objective) { return objectives[static_cast<std::size_t>(objective)]; }

model::Result<Objective> parse_objective(std::string_view text) {
  if (const auto found = std::ranges::find(objectives, text); found != objectives.end())
    return static_cast<Objective>(found - objectives.begin());
  return model::wrong_input(
      "--objective", fmt::format("unknown objective '{}'", text),
      model::did_you_mean_before(text, {objectives.begin(), objectives.end()},
                                 "one of time, cost, gpu-hours; of deployments that serve: throughput, latency, "
                                 "tokens-per-dollar"));
}

model::Result<double> parse_days(std::string_view text) {
  constexpr Units<4> units = {{{"w", 7.0}, {"d", 1.0}, {"h", 1.0 / 24}, {"min", 1.0 / 1440}}};
  if (const auto days = in_units(text, units)) return *days;
  return model::wrong_input("--deadline", fmt::format("'{}' is not a duration", text),
                            "a number above 0 with its unit: 60d, 36h, 8w, 90min");
}

model::Result<double> parse_usd(std::string_view text) {
  constexpr Units<4> units = {{{"", 1.0}, {"k", 1e3}, {"M", 1e6}, {"B", 1e9}}};
  if (const auto usd = in_units(text, units)) return *usd;
  return model::wrong_input("--budget", fmt::format("'{}' is not an amount of money", text),
                            "USD above 0: 6e6, 6000000, 5.5M, 800k");
}

model::Result<double> parse_tokens(std::string_view text) {
  constexpr Units<5> units = {{{"", 1.0}, {"k", 1e3}, {"M", 1e6}, {"B", 1e9}, {"T", 1e12}}};
  if (const auto tokens = in_units(text, units)) return *tokens;
  return model::wrong_input("--tokens", fmt::format("'{}' is not a number of tokens", text),
                            "tokens above 0: 5T, 14.8T, 300B, 1e12");
}

std::optional<double> measure(const PlanCost& cost, Objective objective) {
  switch (objective) {
    case Objective::time:
      return cost.days.value_or(cost.step_s);
    case Objective::gpu_hours:
      return cost.gpu_hours.value_or(cost.step_s * cost.gpus);
    case Objective::cost:
      return cost.usd;
    default:
      return std::nullopt;
  }
}

bool within(const PlanCost& cost, const Limits& limits) {
  return below(cost.days, limits.days) && below(cost.usd, limits.usd);
}

bool are_twins(const model::StepResult& a, const model::StepResult& b) {
  const auto same_class = [](const model::StepTimes::ClassTime& x, const model::StepTimes::ClassTime& y) {
    return x.name == y.name && same(x.seconds, y.seconds);
  };
  const auto same_peak = [](const model::RankMemory& x, const model::RankMemory& y) {
    return same(x.peak_bytes, y.peak_bytes);
  };
  const auto times = [](const model::StepTimes& step) {
    return std::array<std::optional<double>, 4>{step.time_s, step.bubble_s, step.optimizer_s, step.energy_j};
  };
  return std::ranges::equal(times(a.step), times(b.step), [](const auto& x, const auto& y) { return same(x, y); }) &&
         std::ranges::equal(a.step.breakdown, b.step.breakdown, same_class) &&
         std::ranges::equal(a.memory.ranks, b.memory.ranks, same_peak);
}

std::vector<std::size_t> ranked(const std::vector<PlanCost>& candidates, Objective objective, const Limits& limits) {
  std::vector<std::size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto key = [&](std::size_t i) {
    const PlanCost& cost = candidates[i];
    return std::tuple(!within(cost, limits), measure(cost, objective).value_or(unknown), cost.usd.value_or(unknown));
  };
  std::ranges::stable_sort(order, {}, key);
  return order;
}

std::vector<std::optional<bool>> dominated(const std::vector<PlanCost>& candidates) {
  std::vector<std::optional<bool>> result;
  for (const PlanCost& cost : candidates) {
    if (!cost.days || !cost.usd || !std::isfinite(*cost.days)) {
      result.emplace_back(std::nullopt);
      continue;
    }
    result.emplace_back(std::ranges::any_of(candidates, [&](const PlanCost& other) {
      if (!other.days || !other.usd || *other.days > *cost.days || *other.usd > *cost.usd) return false;
      return *other.days < *cost.days || *other.usd < *cost.usd;
    }));
  }
  return result;
}

std::optional<double> probability_within(const PlanCost& cost, const Limits& limits) {
  std::size_t held = 0, fitting = 0;
  for (std::size_t i = 0; i < cost.time_draws.size(); ++i) {
    if (!std::isfinite(cost.time_draws[i])) continue;
    ++fitting;
    held += within(cost, limits, i) ? 1 : 0;
  }
  if (fitting == 0) return std::nullopt;
  return static_cast<double>(held) / static_cast<double>(fitting);
}

std::vector<double> probabilities_best(const std::vector<PlanCost>& candidates, Objective objective,
                                       const Limits& limits) {
  const auto draws_of = [](const PlanCost& cost) { return cost.time_draws.size(); };
  const std::size_t draws = candidates.empty() ? 0 : std::ranges::min(candidates | std::views::transform(draws_of));
  std::vector<double> result(draws > 0 ? candidates.size() : 0);
  for (std::size_t i = 0; i < draws; ++i) {
    double least = unknown;
    std::vector<std::size_t> best;
    for (std::size_t c = 0; c < candidates.size(); ++c) {
      const double value = drawn(candidates[c], objective, i).value_or(unknown);
      if (value > least || value == unknown || !within(candidates[c], limits, i)) continue;
      if (value < least) best.clear();
      least = value;
      best.push_back(c);
    }
    for (const std::size_t c : best) result[c] += 1 / static_cast<double>(draws * best.size());
  }
  return result;
}

std::optional<double> probability_better(const PlanCost& first, const PlanCost& second, Objective objective) {
  const std::size_t draws = std::min(first.time_draws.size(), second.time_draws.size());
  if (draws == 0 || !measure(first, objective) || !measure(second, objective)) return std::nullopt;
  double better = 0;
  for (std::size_t i = 0; i < draws; ++i) {
    const double value = *drawn(first, objective, i), other = *drawn(second, objective, i);
    better += value < other ? 1 : value == other ? 0.5 : 0;
  }
  return better / static_cast<double>(draws);
}

Verdict verdict(const std::vector<double>& probabilities) {
  std::vector<std::size_t> order(probabilities.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t i) { return probabilities[i]; });
  constexpr double rounding = 1e-9;
  Verdict result;
  double sum = 0;
  for (const std::size_t i : order) {
    if (probabilities[i] <= 0 || sum >= sure_enough - rounding) break;
    sum += probabilities[i];
    result.contenders.push_back(i);
  }
  if (result.contenders.size() != 1 || sum < sure_enough - rounding) return result;
  result.winner = result.contenders.front();
  result.contenders.clear();
  return result;
}

bool degenerate(const std::vector<PlanCost>& candidates, Objective objective, const Limits& limits) {
  if (objective == Objective::time || limits.days) return false;
  return std::ranges::any_of(candidates, [&](const PlanCost& cost) { return cost.gpus != candidates.front().gpus; });
}

}  // namespace plumbline::sim
