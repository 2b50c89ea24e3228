// Remembers the links of steps on one fabric, so that plans that differ elsewhere compute its routes once. The owner
// passes it to each evaluation. Safe to use from several threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>

#include "model/base/memo.h"
#include "model/program/routing.h"
#include "sim/network/group_links.h"
#include "sim/network/step_links.h"

namespace plumbline::sim {

struct Inputs;

class LinksMemo {
 public:
  using Links = model::Result<std::shared_ptr<const StepLinks>>;
  // Returns StepLinks::make(), once for all plans with the same ranks and placement. All inputs must share a fabric.
  Links links(const Inputs& inputs, const model::RoutingSpread& spread);
  // Returns group_links() for the placement of the inputs' plan.
  GroupLinks group(const Inputs& inputs, const topologies::Fabric& fabric, const topologies::Placement& placement,
                   const GroupPattern& pattern);

 private:
  // GPUs, those used of a node, pipeline, ranks and stride of an expert group, groups and ranks per token, placement.
  using Key =
      std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, double, double, std::string>;
  model::Memo<Key, Links> known_;
  // GPUs, those used of a node, pipeline, ranks and stride of a group, whether it spans both directions, placement.
  using GroupKey = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, bool, std::string>;
  model::Memo<GroupKey, GroupLinks> groups_;
};

// Returns the links of the inputs' plan. They come from the memo, if there is one, unless the inputs have contention or
// ask for every link.
model::Result<std::shared_ptr<const StepLinks>> links_of(const Inputs& inputs, const model::RoutingSpread& spread);

}  // namespace plumbline::sim
