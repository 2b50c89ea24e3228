#include "model/routing/statistics.h"

#include <cmath>
#include <numeric>

#include "model/plan/layout.h"
#include "model/routing/gate.h"
#include "model/routing/rank_rows.h"

namespace plumbline::model {
namespace {

LoadSpread spread(const std::vector<double>& values) {
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  double squares = 0;
  for (const double value : values) squares += (value / mean - 1) * (value / mean - 1);
  return {std::sqrt(squares / static_cast<double>(values.size())), max_violation(values)};
}

void add_weighted(LoadSpread& sum, const LoadSpread& one, double weight) {
  sum.variation += weight * one.variation;
  sum.max_violation += weight * one.max_violation;
}

// Returns whether a step is listed: 1, 2 or 5 times a power of ten.
bool listed(std::int64_t step) {
  while (step >= 10 && step % 10 == 0) step /= 10;
  return step <= 2 || step == 5;
}

std::vector<RoutingStatistics::Step> balance_steps(const Plan& plan, const Architecture& architecture,
                                                   std::int64_t layer, std::int64_t steps) {
  const auto& routing = plan.routing;
  const GateModel gate(architecture.experts, groups_per_token(plan, architecture.experts));
  const std::vector<double> popularity = shared_popularity(plan, architecture.experts, layer, statistics_seed);
  const double rate = routing.bias_rate.value_or(default_bias_rate);
  std::vector<RoutingStatistics::Step> found;
  std::vector<double> bias;
  for (std::int64_t step = 0; step <= steps; ++step) {
    const GateLoad load = gate.balance(popularity, rate, bias);
    if (listed(step) || step == steps) found.push_back({step, spread(load.share)});
  }
  return found;
}

}  // namespace

RoutingStatistics routing_statistics(const Plan& plan, const Architecture& architecture, std::int64_t steps) {
  constexpr std::int64_t draws = 4;
  std::vector<std::int64_t> layers;
  for (std::int64_t layer = 0; layer < architecture.layers; ++layer)
    if (architecture.is_moe_layer(layer)) layers.push_back(layer);
  RoutingStatistics result;
  if (layers.empty()) return result;
  const RankRows drawn(plan, architecture.experts, layers, statistics_seed);
  const double weight = 1 / static_cast<double>(layers.size());
  std::vector<double> rows;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    result.loads.push_back({layers[i], drawn.shares(i)});
    add_weighted(result.experts, spread(drawn.shares(i)), weight);
    for (std::int64_t draw = 0; draw < draws; ++draw) {
      drawn.draw(0, i, draw, rows);
      add_weighted(result.ranks, spread(rows), weight / draws);
      const double mean = std::accumulate(rows.begin(), rows.end(), 0.0) / static_cast<double>(rows.size());
      result.dropped += (1 - mean) * weight / draws;
    }
  }
  if (plan.routing.balancing == "bias") result.balance = balance_steps(plan, architecture, layers.front(), steps);
  return result;
}

}  // namespace plumbline::model
