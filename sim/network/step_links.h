// The links that the messages of a step cross, for one representative GPU per pipeline rank.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "model/base/error.h"
#include "model/program/program.h"
#include "sim/engine/loop.h"
#include "sim/network/traffic.h"
#include "topologies/fabric.h"

namespace plumbline::model {
struct Plan;
}  // namespace plumbline::model

namespace plumbline::sim {

// The traffic of a group of ranks: expert dispatch and combine, all-to-all, messages.

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

// The slowdown of each pipeline rank's expert group: seconds of its network leg when those of all ranks begin together,
// over seconds alone; at least 1. In a step they do not always begin together, so this is an upper bound.
using Contention = std::vector<double>;

// The legs of a two-step all-to-all of tokens.
inline constexpr std::uint8_t network_leg = 0, node_leg = 1;

// Returns the all-to-all of each pipeline rank's representative expert group, with one token of one byte per GPU.
std::vector<TrafficPattern> expert_patterns(const model::Plan& plan, const topologies::Placement& placement,
                                            const model::RoutingSpread& spread);

// One leg of an all-to-all. The bytes that the GPU sends cross its own first link `times` times in equal parts, and
// other links of the group as often as `footprint` has them. A flow of (bytes of the GPU / times) therefore loads each
// link as the all-to-all does.
struct AllToAllLeg {
  Footprint footprint;
  std::uint32_t times = 1;
  double seconds_per_byte = 0;  // of the GPU's bytes, on the most loaded link of the whole group
  double contention = 1;        // slowdown by other groups, for loops that share no links
};

struct RankLinks {  // of one pipeline rank
  AllToAllLeg network, node;
};

// The links of a step. Ranks are ordered as in Megatron with the pipeline outermost: the ranks of pipeline rank p start
// at p * n / pipeline. An expert group is `expert` consecutive ones, and the first group represents all.
class StepLinks {
 public:
  // Finds the links of a step. With every_link, footprints hold all links of the expert group, not only the most loaded
  // one and those of the representative GPU. `contention` has a factor per pipeline rank; nullptr means none. Returns
  // the errors of fabric and placement.
  static model::Result<StepLinks> make(const topologies::FabricShape& shape, const model::Plan& plan,
                                       const model::RoutingSpread& spread, bool every_link = false,
                                       const Contention* contention = nullptr);

  const topologies::Fabric& fabric() const { return *fabric_; }
  const RankLinks& expert_all_to_all(std::int32_t rank) const { return all_to_alls_[static_cast<std::size_t>(rank)]; }
  // Returns the route between the representative GPUs of two pipeline ranks.
  const Footprint& message(std::int32_t from, std::int32_t to) const { return messages_.at({from, to}); }
  // Returns seconds per byte of the slowest leg of any pipeline rank.
  double network_seconds_per_byte() const { return network_seconds_per_byte_; }
  double node_seconds_per_byte() const { return node_seconds_per_byte_; }

 private:
  StepLinks() = default;
  std::shared_ptr<const topologies::Fabric> fabric_;
  std::vector<RankLinks> all_to_alls_;
  std::vector<std::int64_t> gpus_;  // of each pipeline rank
  std::map<std::pair<std::int32_t, std::int32_t>, Footprint> messages_;
  double network_seconds_per_byte_ = 0, node_seconds_per_byte_ = 0;
};

// The effect of the wiring on the collectives of dense groups: the members that share a node, and the slowdown of the
// rings between nodes, because the rings of all groups run at once and share links.

// Groups of one kind that together hold every rank. A stage has `block` consecutive ranks, and a group takes `ranks` of
// them, `stride` apart. With two directions a group also takes as many ranks of the stage's other copy: pipeline ranks
// p and P - 1 - p hold the same stage.
struct GroupPattern {
  std::int64_t ranks = 1, stride = 1;  // of the whole group
  bool two_directions = false;
};

struct GroupLinks {
  std::int64_t ranks_per_node = 1;  // members on a node, on average, rounded
  // Seconds of the most loaded link over those of a NIC that carries the same ring alone; at least 1.
  double slowdown = 1;
  // [pipeline rank]: the links of the group that its representative GPU is in. Over the network these are the links of
  // that GPU and the most loaded one of the rank's block, loaded by the rings that start in the block; inside the node
  // those to and from the other members.
  std::shared_ptr<const std::vector<RankLinks>> ranks;
};

// Bytes that a GPU sends in the collectives of one or several operators, which take the links one after the other.
struct WireLoad {
  std::int32_t group = -1;  // index in CostModels::groups, of the operator that sends most; -1: none
  double network_bytes = 0, node_bytes = 0;
};

// Returns the links of a group. Each ring visits the nodes of its group in the order of the members, over as many NICs
// of a node as the group has members there, with one byte per NIC. `pipeline` blocks of ranks fill the placement.
// nic_bandwidth (B/s) is one GPU's share of its node's NICs.
GroupLinks group_links(const topologies::Fabric& fabric, const topologies::Placement& placement, std::int64_t pipeline,
                       const GroupPattern& pattern, double nic_bandwidth);

}  // namespace plumbline::sim
