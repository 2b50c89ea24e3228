// Clusters as data: a topology file names its device, wires nodes and fabric, and every number in it
// carries unit, kind and source. Loading fills a model::ClusterShape.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "model/cluster.h"
#include "model/error.h"
#include "model/plan.h"

namespace plumbline::topologies {

// What a plan may say about a cluster beside its topology.
struct Variation {
  std::int64_t gpus = 0;  // 0: one full node
  std::optional<std::string> device;
  std::optional<std::int64_t> nics_per_node;
  std::optional<double> nic_gbps;  // Gb/s per NIC and direction
};
Variation variation_of(const model::Plan& plan);

// Reads the topology file and the device it names (or the variation's) from `device_folder`, as
// <device>.toml. Values become SI; parameters() of the shape keep the units as written and say where
// each constant comes from, the plan's own values as assumed. Wrong files are input errors with file,
// line and key; more GPUs than the switches can connect is infeasible.
model::Result<model::ClusterShape> load_cluster(const std::string& topology_path, const std::string& device_folder,
                                                const Variation& variation);

}  // namespace plumbline::topologies
