// The links that the messages of a step cross: those of the GPU that stands for each pipeline rank.
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

// Of each pipeline rank's expert group, at least 1: seconds of its exchange over the network when those of all ranks
// begin together, over seconds alone. An upper bound for a step, in which they do not always meet.
using Contention = std::vector<double>;

// The hops of an exchange of tokens (sim/network/all_to_all_pattern.h).
inline constexpr std::uint8_t network_leg = 0, node_leg = 1;

// The exchanges of the expert groups that stand for each pipeline rank, of one token of one byte per GPU.
std::vector<TrafficPattern> expert_patterns(const model::Plan& plan, const topologies::Placement& placement,
                                            const model::RoutingSpread& spread);

// One leg of an exchange. What its GPU sends crosses its own first link `times` times in equal parts, and other links
// of the group as often as `footprint` says; so a flow of (bytes of the GPU / times) loads each as the exchange does.
struct AllToAllLeg {
  Footprint footprint;
  std::uint32_t times = 1;
  double seconds_per_byte = 0;  // of the GPU's bytes, on the most loaded link of the whole group
  double contention = 1;        // by other groups, where the loop itself lets nobody share links
};

struct RankLinks {  // of one pipeline rank
  AllToAllLeg network, node;
};

// Ranks are ordered as Megatron does with the pipeline outermost: pipeline rank p holds the ranks from p * n / pipeline
// on, an expert group is `expert` of them in a row, and the first stands for all.
class StepLinks {
 public:
  // every_link: footprints hold all links of the expert group, not only those of the GPU that stands for it and the
  // most loaded one. `contention`: of each pipeline rank, or nullptr for none. Errors of fabric and placement.
  static model::Result<StepLinks> make(const topologies::FabricShape& shape, const model::Plan& plan,
                                       const model::RoutingSpread& spread, bool every_link = false,
                                       const Contention* contention = nullptr);

  const topologies::Fabric& fabric() const { return *fabric_; }
  const RankLinks& expert_all_to_all(std::int32_t rank) const { return all_to_alls_[static_cast<std::size_t>(rank)]; }
  // The way between the GPUs that stand for two pipeline ranks.
  const Footprint& message(std::int32_t from, std::int32_t to) const;
  // The slowest leg of any pipeline rank.
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
