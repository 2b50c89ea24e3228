// Remembers where the tokens of a gate go, so that plans that differ in other things estimate it once. A value
// that its owner hands to each simulation; safe to use from several threads.
#pragma once

#include <array>
#include <cstdint>

#include "model/program/routing.h"
#include "sim/predict/memo.h"

namespace plumbline::sim {

class RoutingMemo {
 public:
  // The same as model::routing_spread, bit for bit.
  model::RoutingSpread spread(const model::MixtureOfExperts& experts, std::int64_t groups_per_token,
                              std::int64_t expert_parallel, std::int64_t ranks_per_node);

 private:
  // The four fields of the experts that routing looks at, then the other arguments.
  using Key = std::array<std::int64_t, 7>;
  Memo<Key, model::RoutingSpread> known_;
};

struct Inputs;

// Of the plan's experts over its expert-parallel group: remembered where the inputs have a memo, else estimated.
model::RoutingSpread spread_of(const Inputs& inputs);
model::RoutingSpread spread_of(const model::Plan& plan, const model::MixtureOfExperts& experts,
                               std::int64_t gpus_per_node, RoutingMemo* memo);

}  // namespace plumbline::sim
