// Clusters as data. A topology file names its device and describes nodes and fabric, and every number in it has unit,
// kind and source. Loading gives a model::ClusterShape and the wiring rules.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/profile/cluster.h"
#include "model/profile/constant_rules.h"
#include "topologies/fabric_shape.h"

namespace plumbline::model {
struct Plan;
}  // namespace plumbline::model

namespace plumbline::topologies {

// The changes that a plan may make to a topology.
struct Variation {
  std::int64_t gpus = 0;  // 0: one full node
  std::optional<std::string> device;
  std::optional<std::int64_t> nics_per_node;  // fewer than rails leave the other rails, and their planes, without a NIC
  std::optional<double> nic_gbps;             // Gb/s per NIC and direction
  std::optional<double> oversubscription;     // of the leaves
  Background background = {};
  // Changes to constants of the files, those of the device as "device.NAME". The fields above take precedence.
  std::vector<model::ConstantChange> constants = {};
};
// A file of a device is searched in the folder of the plan's file, then in the working directory; that of a topology
// next to the topology first.
Variation variation_of(const model::Plan& plan);

struct Topology {
  model::ClusterShape cluster;
  FabricShape fabric;
  std::string description;
};

// Reads the topology file, those that it extends (next to it, else in `shipped`, by default the folder around
// device_folder) and its device, or the variation's, from <device_folder>/<device>.toml. Values become SI.
// cluster.parameters keep the units of the files and the source of each constant; the plan's own values count as
// assumed. Wrong files and impossible wiring are input errors with file, line and key. More GPUs than the switches can
// connect is infeasible.
model::Result<Topology> load_topology(const std::string& topology_path, const std::string& device_folder,
                                      const Variation& variation, const std::string& shipped = "");

}  // namespace plumbline::topologies
