#include "sim/search/ranking.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace plumbline::sim {
namespace {

constexpr std::array<std::string_view, 3> objectives = {"time", "cost", "gpu-hours"};

using Units = std::array<std::pair<std::string_view, double>, 4>;

// Returns a number above 0 times the factor of the unit that follows it.
std::optional<double> in_units(std::string_view text, const Units& units) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !std::isfinite(value) || value <= 0) return std::nullopt;
  const std::string_view rest = text.substr(static_cast<std::size_t>(end - text.data()));
  const auto unit = std::ranges::find(units, rest, &Units::value_type::first);
  if (unit == units.end()) return std::nullopt;
  return value * unit->second;
}

}  // namespace

std::string_view to_string(Objective objective) { return objectives[static_cast<std::size_t>(objective)]; }

model::Result<Objective> parse_objective(std::string_view text) {
  if (const auto found = std::ranges::find(objectives, text); found != objectives.end())
    return static_cast<Objective>(found - objectives.begin());
  return model::wrong_input(
      "--objective", fmt::format("unknown objective '{}'", text),
      model::did_you_mean_before(text, {objectives.begin(), objectives.end()}, "one of time, cost, gpu-hours"));
}

model::Result<double> parse_days(std::string_view text) {
  constexpr Units units = {{{"w", 7.0}, {"d", 1.0}, {"h", 1.0 / 24}, {"min", 1.0 / 1440}}};
  if (const auto days = in_units(text, units)) return *days;
  return model::wrong_input("--deadline", fmt::format("'{}' is not a duration", text),
                            "a number above 0 with its unit: 60d, 36h, 8w, 90min");
}

model::Result<double> parse_usd(std::string_view text) {
  constexpr Units units = {{{"", 1.0}, {"k", 1e3}, {"M", 1e6}, {"B", 1e9}}};
  if (const auto usd = in_units(text, units)) return *usd;
  return model::wrong_input("--budget", fmt::format("'{}' is not an amount of money", text),
                            "USD above 0: 6e6, 6000000, 5.5M, 800k");
}

std::optional<double> measure(const PlanCost& cost, Objective objective) {
  switch (objective) {
    case Objective::time:
      return cost.days.value_or(cost.step_s);
    case Objective::gpu_hours:
      return cost.gpu_hours.value_or(cost.step_s * cost.gpus);
    case Objective::cost:
      return cost.usd;
  }
  return std::nullopt;
}

std::optional<Interval> interval(const PlanCost& cost, Objective objective) {
  const auto value = measure(cost, objective);
  if (!value || !cost.uncertainty || *cost.uncertainty >= 1) return std::nullopt;
  const bool money = objective == Objective::cost;
  const double low = money ? cost.usd_low.value_or(*value) : *value;
  const double high = money ? cost.usd_high.value_or(*value) : *value;
  return Interval{low / (1 + *cost.uncertainty), high / (1 - *cost.uncertainty)};
}

bool within(const PlanCost& cost, const Limits& limits) {
  const auto fits = [](const std::optional<double>& value, const std::optional<double>& limit) {
    return !limit || (value && *value <= *limit);
  };
  return fits(cost.days, limits.days) && fits(cost.usd, limits.usd);
}

std::vector<std::size_t> ranked(const std::vector<PlanCost>& candidates, Objective objective, const Limits& limits) {
  std::vector<std::size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto key = [&](std::size_t i) {
    return std::pair(!within(candidates[i], limits),
                     measure(candidates[i], objective).value_or(std::numeric_limits<double>::infinity()));
  };
  std::ranges::stable_sort(order, {}, key);
  return order;
}

std::vector<std::optional<bool>> dominated(const std::vector<PlanCost>& candidates) {
  std::vector<std::optional<bool>> result;
  for (const PlanCost& cost : candidates) {
    if (!cost.days || !cost.usd) {
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

double tie_margin(const model::Plan& plan, const model::Plan& other) {
  const auto same_degree = [&](const model::Degree& degree) {
    return plan.parallelism.*degree.value == other.parallelism.*degree.value;
  };
  const bool same_layout = std::ranges::all_of(model::parallel_degrees, same_degree) &&
                           plan.batch.micro_batch_size == other.batch.micro_batch_size &&
                           plan.parallelism.zero_stage == other.parallelism.zero_stage;
  return same_layout ? schedule_scatter : layout_scatter;
}

Standing standing(const PlanCost& better, const PlanCost& other, Objective objective) {
  const auto first = measure(better, objective), second = measure(other, objective);
  if (!first || !second) return first ? Standing::ahead : Standing::indistinguishable;
  if (better.errors == other.errors) return *second < *first * (1 + layout_scatter) ? Standing::tie : Standing::ahead;
  const auto known = interval(better, objective), against = interval(other, objective);
  return known && against && known->high < against->low ? Standing::ahead : Standing::indistinguishable;
}

Verdict verdict(const std::vector<PlanCost>& candidates, const std::vector<std::size_t>& order, Objective objective,
                const Limits& limits) {
  Verdict result;
  if (order.empty() || !within(candidates[order.front()], limits) || !measure(candidates[order.front()], objective))
    return result;
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (!within(candidates[order[i]], limits)) break;
    const Standing stands = standing(candidates[order.front()], candidates[order[i]], objective);
    if (stands == Standing::tie) result.ties.push_back(order[i]);
    if (stands == Standing::indistinguishable) result.indistinguishable.push_back(order[i]);
  }
  if (result.indistinguishable.empty()) result.winner = order.front();
  return result;
}

bool degenerate(const std::vector<PlanCost>& candidates, Objective objective, const Limits& limits) {
  if (objective == Objective::time || limits.days) return false;
  return std::ranges::any_of(candidates, [&](const PlanCost& cost) { return cost.gpus != candidates.front().gpus; });
}

}  // namespace plumbline::sim
