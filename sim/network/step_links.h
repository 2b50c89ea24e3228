// The links that the messages of a step cross, for one representative GPU per pipeline rank.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "model/base/error.h"
#include "model/plan/plan.h"
#include "model/program/routing.h"
#include "sim/engine/loop.h"
#include "sim/network/traffic_pattern.h"
#include "topologies/fabric.h"
#include "topologies/placement.h"

namespace plumbline::sim {

// The slowdown of each pipeline rank's expert group: seconds of its network leg when those of all ranks begin together,
// over seconds alone; at least 1. In a step they do not always begin together, so this is an upper bound.
using Contention = std::vector<double>;

// The legs of a two-step all-to-all of tokens (sim/network/traffic_pattern.h).
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
  const Footprint& message(std::int32_t from, std::int32_t to) const;
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

}  // namespace plumbline::sim
