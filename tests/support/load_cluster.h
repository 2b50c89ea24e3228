// The cluster of a topology file without its wiring.
#pragma once

#include <string>
#include <utility>

#include "model/profile/cluster.h"
#include "topologies/topology.h"

namespace plumbline::tests {

inline model::Result<model::ClusterShape> load_cluster(const std::string& topology_path,
                                                       const std::string& device_folder,
                                                       const topologies::Variation& variation) {
  return topologies::load_topology(topology_path, device_folder, variation).map([](topologies::Topology&& topology) {
    return std::move(topology.cluster);
  });
}

}  // namespace plumbline::tests
