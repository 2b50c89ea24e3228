// The topology that NCCL and RCCL write with NCCL_TOPO_DUMP_FILE, as a topology file of ours.
#pragma once

#include <string>
#include <vector>

#include "model/base/error.h"

namespace plumbline::topologies {

struct ImportedTopology {
  std::string toml;
  std::vector<std::string> notes;  // what was left out or taken on trust, a sentence each
};

// Reads the dump of one node (or of one NVLink domain). Taken from it: the number of GPUs and their links to switches
// or to each other, the number and speed of the NICs; GPUs without such links speak over PCIe. What a dump does not
// say, which is all about the network beyond the NICs, is written with kind "assumed" and a comment. A file that is no
// such dump, or whose GPUs differ, is an input error with its line.
model::Result<ImportedTopology> import_nccl_topology(const std::string& path);

}  // namespace plumbline::topologies
