// Conversion of the topology that NCCL and RCCL write to NCCL_TOPO_DUMP_FILE into a topology file.
//
// Export of a cluster as a platform file of SimGrid (simgrid.org), DTD version 4.1, for any program built on it.
#pragma once

#include <string>
#include <vector>

#include "model/base/error.h"
#include "topologies/fabric.h"
#include "topologies/topology.h"

namespace plumbline::topologies {

struct ImportedTopology {
  std::string toml;
  std::vector<std::string> notes;  // a sentence for each entry that was left out or assumed
};

// Reads the dump of one node (or of one NVLink domain). The dump gives the number of GPUs and their links to switches
// or to each other, and the number and speed of the NICs. GPUs without such links use PCIe. Everything else, which is
// the network beyond the NICs, is written with kind "assumed" and a comment. A file that is not such a dump, or whose
// GPUs differ, is an input error with its line.
model::Result<ImportedTopology> import_nccl_topology(const std::string& path);

// Returns the file, with one zone of shortest-path routing, so that its size grows with the links and not with the
// pairs of GPUs. Hosts are gpu0, gpu1, ... with the dense BF16 peak as their speed; links have the names of the
// fabric's. Bandwidth and latency between any two GPUs are those of Fabric::route. The spines of a pod, and the cores
// of a plane, are one router each, and the parallel links to them one link with their joint bandwidth. The file
// therefore does not represent which spine a flow takes, or where two flows share one.
std::string simgrid_platform(const Topology& topology, const Fabric& fabric);

}  // namespace plumbline::topologies
