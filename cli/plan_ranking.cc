#include "cli/plan_ranking.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace plumbline::cli {

std::optional<double> measure(const Offer& offer, Objective objective) {
  switch (objective) {
    case Objective::time:
      return offer.days.value_or(offer.step_s);
    case Objective::gpu_hours:
      return offer.gpu_hours.value_or(offer.step_s * offer.gpus);
    case Objective::cost:
      return offer.usd;
  }
  return std::nullopt;
}

std::optional<Interval> interval(const Offer& offer, Objective objective) {
  const auto value = measure(offer, objective);
  if (!value || !offer.uncertainty || *offer.uncertainty >= 1) return std::nullopt;
  const bool money = objective == Objective::cost;
  const double low = money ? offer.usd_low.value_or(*value) : *value;
  const double high = money ? offer.usd_high.value_or(*value) : *value;
  return Interval{low / (1 + *offer.uncertainty), high / (1 - *offer.uncertainty)};
}

bool within(const Offer& offer, const Limits& limits) {
  const auto fits = [](const std::optional<double>& value, const std::optional<double>& limit) {
    return !limit || (value && *value <= *limit);
  };
  return fits(offer.days, limits.days) && fits(offer.usd, limits.usd);
}

std::vector<std::size_t> ranked(const std::vector<Offer>& offers, Objective objective, const Limits& limits) {
  std::vector<std::size_t> order(offers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto key = [&](std::size_t i) {
    return std::pair(!within(offers[i], limits),
                     measure(offers[i], objective).value_or(std::numeric_limits<double>::infinity()));
  };
  std::ranges::stable_sort(order, {}, key);
  return order;
}

std::vector<std::optional<bool>> dominated(const std::vector<Offer>& offers) {
  std::vector<std::optional<bool>> result;
  for (const Offer& offer : offers) {
    if (!offer.days || !offer.usd) {
      result.emplace_back(std::nullopt);
      continue;
    }
    result.emplace_back(std::ranges::any_of(offers, [&](const Offer& other) {
      if (!other.days || !other.usd || *other.days > *offer.days || *other.usd > *offer.usd) return false;
      return *other.days < *offer.days || *other.usd < *offer.usd;
    }));
  }
  return result;
}

Standing standing(const Offer& better, const Offer& other, Objective objective) {
  constexpr double tie = 0.01;
  const auto first = measure(better, objective), second = measure(other, objective);
  if (!first || !second) return first ? Standing::ahead : Standing::indistinguishable;
  if (better.errors == other.errors) return *second < *first * (1 + tie) ? Standing::tie : Standing::ahead;
  const auto known = interval(better, objective), against = interval(other, objective);
  return known && against && known->high < against->low ? Standing::ahead : Standing::indistinguishable;
}

Verdict verdict(const std::vector<Offer>& offers, const std::vector<std::size_t>& order, Objective objective,
                const Limits& limits) {
  Verdict result;
  if (order.empty() || !within(offers[order.front()], limits) || !measure(offers[order.front()], objective))
    return result;
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (!within(offers[order[i]], limits)) break;
    const Standing stands = standing(offers[order.front()], offers[order[i]], objective);
    if (stands == Standing::tie) result.ties.push_back(order[i]);
    if (stands == Standing::indistinguishable) result.indistinguishable.push_back(order[i]);
  }
  if (result.indistinguishable.empty()) result.winner = order.front();
  return result;
}

bool degenerate(const std::vector<Offer>& offers, Objective objective, const Limits& limits) {
  if (objective == Objective::time || limits.days) return false;
  return std::ranges::any_of(offers, [&](const Offer& offer) { return offer.gpus != offers.front().gpus; });
}

}  // namespace plumbline::cli
