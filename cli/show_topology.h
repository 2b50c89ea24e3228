// `plumbline show topology`: a cluster drawn in text and as SVG, its links counted, its constants with their sources.
#pragma once

#include <cstdint>
#include <string>

#include "model/base/error.h"
#include "topologies/fabric.h"
#include "topologies/topology.h"

namespace plumbline::cli {

// Node, fabric and table of links, for at most 100 columns.
std::string topology_drawing(const topologies::Topology& topology, const topologies::Fabric& fabric);

// The same as a picture.
std::string topology_svg(const topologies::Topology& topology, const topologies::Fabric& fabric);

// What the verb prints for a shipped topology or a file, with `gpus` of them (0: 2,048, or as many as the wiring
// connects). A name for the picture writes it there; with - only the picture goes to stdout, and the text is empty.
model::Result<std::string> show_topology(const std::string& name, std::int64_t gpus, const std::string& svg);

}  // namespace plumbline::cli
