// Remembers the links of steps on one fabric, so that plans that differ in other things walk its routes once. A value
// that its owner hands to each evaluation; safe to use from several threads.
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
  // StepLinks::make, once for all plans whose ranks lie alike. All inputs have the same fabric.
  Links links(const Inputs& inputs, const model::RoutingSpread& spread);
  // group_links() of the ranks where the inputs' plan places them.
  GroupLinks group(const Inputs& inputs, const topologies::Fabric& fabric, const topologies::Placement& placement,
                   const GroupPattern& pattern);

 private:
  // GPUs, pipeline, ranks and stride of an exchange, groups and ranks per token, placement.
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, double, double, std::string>;
  model::Memo<Key, Links> known_;
  // GPUs, pipeline, ranks and stride of a group, whether it spans both directions, placement.
  using GroupKey = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, bool, std::string>;
  model::Memo<GroupKey, GroupLinks> groups_;
};

// Of the inputs' plan: remembered where the inputs have a memo, no contention and no wish for every link.
model::Result<std::shared_ptr<const StepLinks>> links_of(const Inputs& inputs, const model::RoutingSpread& spread);

}  // namespace plumbline::sim
