// The inputs of a prediction: what is trained how (the plan), on what, and under which constants.
#pragma once

#include <memory>
#include <optional>

#include "model/architecture/architecture.h"
#include "model/plan/plan.h"
#include "model/profile/cluster.h"
#include "model/profile/profile.h"
#include "topologies/fabric_shape.h"

namespace plumbline::sim {

class ContentionTable;
class LinksMemo;
class RoutingMemo;
class ScheduleTables;

// Plans that are looked at together share the memos; each may be null.
struct Inputs {
  model::Plan plan;
  model::Architecture architecture;
  model::ClusterShape cluster;
  model::Profile profile;
  std::shared_ptr<RoutingMemo> routing = nullptr;
  std::optional<topologies::FabricShape> fabric = std::nullopt;  // wiring; without it links are what the rates say
  // Of expert groups on shared links, where the loop lets nobody share. The SimGrid loop needs none.
  std::shared_ptr<const ContentionTable> contention = nullptr;
  std::shared_ptr<LinksMemo> links = nullptr;        // all plans that share it are on one fabric
  std::shared_ptr<ScheduleTables> tables = nullptr;  // of schedules
  bool every_link = false;  // all links of an expert group, not only those of the GPU that stands for it
};

}  // namespace plumbline::sim
