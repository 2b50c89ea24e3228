// A cluster as a platform file of SimGrid (simgrid.org), DTD version 4.1, for any program built on it.
#pragma once

#include <string>

#include "topologies/fabric.h"
#include "topologies/topology.h"

namespace plumbline::topologies {

// One zone with shortest-path routing, so that the file grows with the links and not with the pairs of GPUs. Hosts are
// gpu0, gpu1, ... with the dense BF16 peak as their speed; links carry the names of the fabric's. Bandwidth and latency
// between any two GPUs are those of Fabric::route. The spines of a pod, and the cores of a plane, are one router
// each, and the parallel links towards them one link of their joint bandwidth: which spine a flow takes, and where two
// flows meet on one, is not in the file.
std::string simgrid_platform(const Topology& topology, const Fabric& fabric);

}  // namespace plumbline::topologies
