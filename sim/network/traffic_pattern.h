// What a group of ranks sends when it exchanges: expert dispatch and combine, all-to-all, messages.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "model/base/error.h"
#include "sim/network/traffic.h"
#include "topologies/fabric.h"

namespace plumbline::sim {

enum class TrafficKind {
  dispatch,    // tokens to the ranks of their experts, in two hops
  combine,     // the results back, the same way in reverse
  all_to_all,  // every rank sends `token_bytes` to every other one, directly
  message      // the first rank sends `token_bytes` to the second
};

// Equal descriptions make equal traffic.
struct TrafficPattern {
  TrafficKind kind = TrafficKind::dispatch;
  std::vector<std::int64_t> gpus;  // of each rank of the group
  double token_bytes = 0;          // on the wire

  // Dispatch and combine only.
  std::vector<double> tokens;      // of each rank, or one entry for all of them
  double nodes_per_token = 0;      // expected distinct nodes that a token reaches, its own included
  double ranks_per_token = 0;      // expected distinct ranks
  std::vector<double> popularity;  // rows that each rank receives, relative to each other; empty: equal

  std::partial_ordering operator<=>(const TrafficPattern&) const = default;
};

// Dispatch, as DeepEP does it: a token goes over the network once to each of its nodes, to the GPU there with the same
// index in the node (where the group has no such GPU, to one of its GPUs there in turn), and from that GPU over the
// node to its ranks. With R ranks of equal popularity, one rank sends
//   tokens * token_bytes * nodes_per_token * (ranks of the group on the node) / R  to each other node,
//   tokens * token_bytes * ranks_per_token / R                                     to each rank, from where it landed.
// Popularity replaces the shares 1 / R; no share exceeds one whole token. Hop 0 is the network, hop 1 the node.
// Combine has the same transfers with from and to exchanged. Errors (input): a GPU that is not in the fabric or twice
// in the group, lists whose lengths do not fit, amounts that are negative or not finite.
model::Result<std::vector<Transfer>> transfers_of(const topologies::Fabric& fabric, const TrafficPattern& pattern);

}  // namespace plumbline::sim
