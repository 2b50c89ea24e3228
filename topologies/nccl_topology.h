// Conversion of the topology that NCCL and RCCL write to NCCL_TOPO_DUMP_FILE into a topology file.
#pragma once

#include <string>
#include <vector>

#include "model/base/error.h"

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

}  // namespace plumbline::topologies
