// Clusters as data: a topology file names its device, wires nodes and fabric, and every number in it
// carries unit, kind and source. Loading fills a model::ClusterShape and the wiring rules.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/plan/plan.h"
#include "model/profile/cluster.h"
#include "model/profile/constant_change.h"
#include "topologies/fabric_shape.h"

namespace plumbline::topologies {

// What a plan may say about a cluster beside its topology.
struct Variation {
  std::int64_t gpus = 0;  // 0: one full node
  std::optional<std::string> device;
  std::optional<std::int64_t> nics_per_node;  // fewer than rails leave the other rails, and their planes, without a NIC
  std::optional<double> nic_gbps;             // Gb/s per NIC and direction
  std::optional<double> oversubscription;     // of the leaves
  // Of the files' constants, those of the device as "device.NAME"; what the plan says of the same comes after.
  std::vector<model::ConstantChange> constants = {};
};
Variation variation_of(const model::Plan& plan);

struct Topology {
  model::ClusterShape cluster;
  FabricShape fabric;
  std::string description;
};

// Reads the topology file and the device it names (or the variation's) from `device_folder`, as
// <device>.toml. Values become SI; cluster.parameters keep the units as written and say where
// each constant comes from, the plan's own values as assumed. Wrong files and impossible wiring are input errors
// with file, line and key; more GPUs than the switches can connect is infeasible.
model::Result<Topology> load_topology(const std::string& topology_path, const std::string& device_folder,
                                      const Variation& variation);

}  // namespace plumbline::topologies
