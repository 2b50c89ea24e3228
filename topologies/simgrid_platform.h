// Export of a cluster as a platform file of SimGrid (simgrid.org), DTD version 4.1, for any program built on it.
#pragma once

#include <string>

#include "topologies/fabric.h"
#include "topologies/topology.h"

namespace plumbline::topologies {

// Returns the file, with one zone of shortest-path routing, so that its size grows with the links and not with the
// pairs of GPUs. Hosts are gpu0, gpu1, ... with the dense BF16 peak as their speed; links have the names of the
// fabric's. Bandwidth and latency between any two GPUs are those of Fabric::route. The spines of a pod, and the cores
// of a plane, are one router each, and the parallel links to them one link with their joint bandwidth. The file
// therefore does not represent which spine a flow takes, or where two flows share one.
std::string simgrid_platform(const Topology& topology, const Fabric& fabric);

}  // namespace plumbline::topologies
