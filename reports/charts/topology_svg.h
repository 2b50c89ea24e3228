// The picture of a cluster: its switches, NICs and the GPUs of one node.
#pragma once

#include <string>

#include "topologies/fabric.h"
#include "topologies/topology.h"

namespace plumbline::reports {

// An SVG document (light or dark as the viewer is), from the cores at the top to the GPUs of one node.
std::string topology_svg(const topologies::Topology& topology, const topologies::Fabric& fabric);

}  // namespace plumbline::reports
