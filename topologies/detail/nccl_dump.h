// The contents of an NCCL topology dump of one node.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/base/error.h"

namespace plumbline::topologies {

struct DumpedGpu {
  int line = 0;
  std::string architecture;          // "sm90", "gfx942"
  std::string bus, pci_device;       // "0000:1b:00.0", "0x2330"
  double pci_bandwidth = 0;          // B/s per direction; 0 when the dump has none
  std::map<std::string, int> peers;  // links by the bus id of their other end
  int links_to_switches = 0;         // those with a switch at the other end
  bool links_are_xgmi = false;       // AMD's links instead of NVLink
};

struct DumpedNic {
  std::string name;
  double speed_gbps = 0;
};

struct NcclDump {
  std::vector<DumpedGpu> gpus;
  std::vector<DumpedNic> nics;
  std::map<std::string, int> unknown;  // unknown elements by name, and the line of the first
};

model::Result<NcclDump> read_nccl_dump(const std::string& path);

}  // namespace plumbline::topologies
