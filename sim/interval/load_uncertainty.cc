// The load of experts: how unevenly routing spreads rows over the ranks of an expert group.
#include <algorithm>

#include "model/program/routing.h"
#include "sim/interval/detail/spread.h"
#include "sim/interval/uncertainty.h"

namespace plumbline::sim {

// A plan that states nothing is predicted with forced balance, and its draws are not: the middle of its interval is
// above its step. A capacity of experts bounds the rows that are drawn, as in a prediction (sim/step/stragglers.h).
void add_load(const Inputs& inputs, std::vector<Uncertainty>& found) {
  const model::MixtureOfExperts& experts = inputs.architecture.experts;
  if (experts.routed_experts == 0 || inputs.plan.parallelism.expert == 1) return;
  const model::RoutingBalance balance = model::routing_balance(inputs.plan, experts);
  if (balance.high <= balance.low) return;
  const Spread spread{balance.low, balance.middle, balance.high};
  found.push_back({"load of experts", "expert load",
                   [spread](double z, InputChange& change) { change.imbalance = std::max(0.0, linear(spread, z)); },
                   "the fullest rank's rows of a step of your training (routing.imbalance)", 0.1});
}

}  // namespace plumbline::sim
