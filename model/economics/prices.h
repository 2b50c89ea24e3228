// What the hardware of a cluster costs and draws, as its topology file says it (docs/economics.md). Plain data;
// topologies/ fills it. An entry that is not there is not known.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/base/provenance.h"

namespace plumbline::model {

// Values are in the unit that is named, the only one that files may use for it.
struct Prices {
  using Entry = std::optional<Parameter>;
  Entry rent;           // USD per GPU-hour
  Entry server;         // USD of a node: GPUs, host and what joins them, without the NICs of the fabric
  Entry nic;            // USD each
  Entry fabric_switch;  // USD each, with its transceivers and the cables to NICs
  Entry link;           // USD of a cable between two switches
  Entry depreciation;   // years
  Entry utilization;    // share of those years' hours in which the GPUs work
  Entry pue;            // power of the building over that of the machines
  Entry electricity;    // USD per kWh
  Entry host_power;     // W of a node beside its GPUs and NICs
  Entry nic_power;      // W each
  Entry switch_power;   // W each, with its transceivers

  // What the plan changed, so that prices of the file do not hold and are left out: "cluster.device"; empty: nothing.
  std::string changed;

  std::vector<Parameter> stated() const;  // those that are there
  bool operator==(const Prices&) const = default;
};

// What a fabric of a number of GPUs is made of.
struct FabricParts {
  std::int64_t nics = 0;
  std::int64_t switches = 0;
  std::int64_t links = 0;  // cables between switches
  bool operator==(const FabricParts&) const = default;
};

}  // namespace plumbline::model
