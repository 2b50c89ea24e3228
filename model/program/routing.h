// Estimates where tokens go, for group-limited top-k routing with independent random scores.
#pragma once

#include <cstdint>

#include "model/architecture/architecture.h"

namespace plumbline::model {

struct Plan;

struct RoutingSpread {
  double ranks_per_token = 0;  // expected distinct expert-parallel ranks that a token reaches
  double nodes_per_token = 0;  // expected distinct nodes
};

// Estimates how many ranks and nodes a token reaches. Experts are placed contiguously on `expert_parallel` ranks,
// `ranks_per_node` to a node. A token may use `groups_per_token` of the model's expert groups; a group's score is the
// sum of its group_score_experts best scores. The estimate draws 2,048 random tokens from a fixed seed, because the
// selected groups depend on the experts in them. The standard error of nodes_per_token is below 0.01; ranks_per_token
// does not depend on ranks_per_node. It takes about 20 ms for 256 experts.
RoutingSpread routing_spread(const MixtureOfExperts& experts, std::int64_t groups_per_token,
                             std::int64_t expert_parallel, std::int64_t ranks_per_node);

// How unevenly the rows of experts lie on the ranks of an expert group, as their standard deviation over their mean.
struct RoutingBalance {
  // What a step is predicted with: routing.imbalance, or the deviation of rows from what they expect where the plan
  // states the load of experts (model/routing/rank_rows.h); 0 where it states neither.
  double used = 0;
  // What routing does that balances itself, and the range (eight of ten) from forced balance to an auxiliary loss
  // alone. Around a value above 0 that the plan states it is that of the sources, from loss-free balancing on.
  double middle = 0, low = 0, high = 0;
  bool stated = false;  // else a prediction with `used` is one of forced balance
};

// Returns the balance of the plan's routing. Its numbers are for one expert and even out over the m experts of a rank
// by sqrt(m). Where biases balance: 0.15 from the waits in DeepSeek-V3's published profile (0.075 at four experts a
// rank, docs/validation.md), at most 0.3 (0.24 in training, imbalance.ultraep.deepseek_v3 of
// calibrate/published/straggler_priors.toml). With an auxiliary loss: auxiliary_variation()
// (model/routing/rank_rows.h), at most 1.4 times that, as 0.83 and 0.59 of 128 experts. Loss-free balancing over a
// whole batch leaves 0.04 / 2.4.
RoutingBalance routing_balance(const Plan& plan, const MixtureOfExperts& experts);

// Makes the rows of expert ranks vary by `imbalance`, whatever else the plan states about its routing.
void set_imbalance(Plan& plan, double imbalance);

}  // namespace plumbline::model
