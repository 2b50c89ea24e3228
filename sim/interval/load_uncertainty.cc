// The load of experts: how unevenly routing spreads rows over the ranks of an expert group.
#include <algorithm>

#include "model/program/routing.h"
#include "sim/interval/detail/spread.h"
#include "sim/interval/uncertainty.h"

namespace plumbline::sim {

// A plan that states nothing is predicted with forced balance, and its draws are not: the middle of its interval is
// above its step. Balance that is forced is known: stated as 0, as rows of each rank, or by padding to the capacity of
// an expert. A capacity of experts bounds the rows that are drawn, as in a prediction (sim/step/stragglers.h).
void add_load(const Inputs& inputs, std::vector<Uncertainty>& found) {
  const model::MixtureOfExperts& experts = inputs.architecture.experts;
  if (experts.routed_experts == 0 || inputs.plan.parallelism.expert == 1) return;
  const auto& routing = inputs.plan.routing;
  const model::RoutingBalance balance = model::routing_balance(inputs.plan, experts);
  const bool forced = balance.stated && balance.used == 0;
  if (forced || !routing.rows_per_rank.empty() || routing.pad_to_capacity.value_or(false)) return;
  const Spread spread{balance.low, balance.middle, balance.high};
  found.push_back({"load of experts", "expert load",
                   [spread](double z, InputChange& change) { change.imbalance = std::max(0.0, linear(spread, z)); },
                   "the fullest rank's rows of a step of your training (routing.imbalance)", 0.1});
}

}  // namespace plumbline::sim
