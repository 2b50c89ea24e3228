// The traffic of a group of ranks: expert dispatch and combine, all-to-all, messages.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "model/base/error.h"
#include "sim/network/traffic.h"
#include "topologies/fabric.h"

namespace plumbline::sim {

enum class TrafficKind {
  dispatch,    // tokens to the ranks of their experts, in two legs
  combine,     // the results back, over the same routes in reverse
  all_to_all,  // every rank sends `token_bytes` directly to every other one
  message      // the first rank sends `token_bytes` to the second
};

// Describes the traffic of one group. Equal descriptions make equal traffic.
struct TrafficPattern {
  TrafficKind kind = TrafficKind::dispatch;
  std::vector<std::int64_t> gpus;  // of each rank of the group
  double token_bytes = 0;          // on the wire

  // The following apply to dispatch and combine only.
  std::vector<double> tokens;      // of each rank, or one entry for all of them
  double nodes_per_token = 0;      // expected distinct nodes that a token reaches, its own included
  double ranks_per_token = 0;      // expected distinct ranks
  std::vector<double> popularity;  // relative rows that each rank receives; empty: equal

  std::partial_ordering operator<=>(const TrafficPattern&) const = default;
};

// Returns the transfers of a pattern. Dispatch follows DeepEP: a token crosses the network once to each of its nodes,
// to the GPU there with the sender's index in the node. Where the group has no such GPU, its GPUs there take turns.
// From that GPU the token crosses the node to its ranks. With R ranks of equal popularity, one rank sends
//   tokens * token_bytes * nodes_per_token * (ranks of the group on the node) / R  to each other node,
//   tokens * token_bytes * ranks_per_token / R                                     to each rank, from where it landed.
// Popularity replaces the shares 1 / R, and no share exceeds one whole token. Leg 0 is the network, leg 1 the node.
// Combine has the same transfers with from and to swapped. Errors (input): a GPU that is not in the fabric or twice in
// the group, lists whose lengths do not fit, amounts that are negative or not finite.
model::Result<std::vector<Transfer>> transfers_of(const topologies::Fabric& fabric, const TrafficPattern& pattern);

}  // namespace plumbline::sim
