// Prices and power of a cluster's hardware from its topology file (docs/economics.md). Plain data; topologies/ fills
// it. A missing entry is unknown.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/base/provenance.h"

namespace plumbline::model {

// Each value is in the given unit, the only one that files may use for it.
struct Prices {
  using Entry = std::optional<Parameter>;
  Entry rent;           // USD per GPU-hour
  Entry server;         // USD of a node: GPUs, host and what joins them, without the NICs of the fabric
  Entry nic;            // USD each
  Entry fabric_switch;  // USD each, with its transceivers and the cables to NICs
  Entry link;           // USD of a cable between two switches
  Entry depreciation;   // years
  Entry utilization;    // share of those years in which the GPUs are in use
  Entry pue;            // power of the building over that of the machines
  Entry electricity;    // USD per kWh
  Entry host_power;     // W of a node without its GPUs and NICs
  Entry nic_power;      // W each
  Entry switch_power;   // W each, with its transceivers

  // The key by which the plan changed the hardware, so that the file's prices are left out: "cluster.device"; or empty.
  std::string changed;

  // Returns the known entries.
  std::vector<Parameter> stated() const {
    std::vector<Parameter> known;
    for (const Entry* entry : {&rent, &server, &nic, &fabric_switch, &link, &depreciation, &utilization, &pue,
                               &electricity, &host_power, &nic_power, &switch_power})
      if (*entry) known.push_back(**entry);
    return known;
  }
  bool operator==(const Prices&) const = default;
};

// The parts of a fabric for a number of GPUs.
struct FabricParts {
  std::int64_t nics = 0;
  std::int64_t switches = 0;
  std::int64_t links = 0;  // cables between switches
  bool operator==(const FabricParts&) const = default;
};

}  // namespace plumbline::model
