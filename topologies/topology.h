// Clusters as data. A topology file names its device and describes nodes and fabric, and every number in it has unit,
// kind and source. Loading gives a model::ClusterShape and the wiring rules.
//
// GPUs as data: topologies/devices/<name>.toml, with their aliases.
//
// Reads the numbers of a parameter file, and of those that it extends, one by one, converts them and collects their
// provenance.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/error.h"
#include "model/base/parameter_file.h"
#include "model/base/units.h"
#include "model/profile/cluster.h"
#include "model/profile/constant_rules.h"
#include "topologies/fabric.h"

namespace plumbline::model {
struct Plan;
}  // namespace plumbline::model

namespace plumbline::topologies {

// Keeps the first error, and all entries that are missing.
class ParameterTaker {
 public:
  // Names in `parameters` get the prefix. No time is longer than `longest_s` seconds.
  ParameterTaker(const model::ParameterFile& file, std::string prefix, std::vector<model::Parameter>& parameters,
                 double longest_s = 1e3)
      : file_(file), prefix_(std::move(prefix)), parameters_(parameters), longest_s_(longest_s) {}

  // Returns the value in SI units. It must be above 0, or from 0 on with may_be_zero; a count must be whole.
  double take(std::string_view name, model::UnitDimension dimension, bool may_be_zero = false);
  std::int64_t count(std::string_view name, bool may_be_zero = false);
  double ratio(std::string_view name, double least = 0, double most = 1e15);  // may be a fraction
  // Returns an amount from 0 on, which may be a fraction; the fallback where the file does not have it.
  double amount(std::string_view name, model::UnitDimension dimension, std::optional<double> fallback = std::nullopt);

  // Returns whether the file has an entry that it may lack, which is a suggestion for unknown ones all the same.
  bool has(std::string_view name) {
    taken_.emplace_back(name);
    return file_.number(name) != nullptr;
  }

  // Returns the first error, or one about all required entries that are missing, or about one that was not taken.
  std::optional<model::Error> finish();

 private:
  double take(std::string_view name, model::UnitDimension dimension, bool may_be_zero, bool whole);
  void fail(std::string_view name, std::string message, std::string hint);

  const model::ParameterFile& file_;
  std::string prefix_;
  std::vector<model::Parameter>& parameters_;
  double longest_s_;
  std::vector<std::string> taken_, missing_;
  std::optional<model::Error> error_;
};

// The changes that a plan may make to a topology.
struct Variation {
  std::int64_t gpus = 0;  // 0: one full node
  std::optional<std::string> device;
  std::optional<std::int64_t> nics_per_node;  // fewer than rails leave the other rails, and their planes, without a NIC
  std::optional<double> nic_gbps;             // Gb/s per NIC and direction
  std::optional<double> oversubscription;     // of the leaves
  Background background = {};
  // Changes to constants of the files, those of the device as "device.NAME". The fields above take precedence.
  std::vector<model::ConstantChange> constants = {};
};
// A file of a device is searched in the folder of the plan's file, then in the working directory; that of a topology
// next to the topology first.
Variation variation_of(const model::Plan& plan);

struct Topology {
  model::ClusterShape cluster;
  FabricShape fabric;
  std::string description;
};

// Reads the topology file, those that it extends (next to it, else in `shipped`, by default the folder around
// device_folder) and its device, or the variation's, from <device_folder>/<device>.toml. Values become SI.
// cluster.parameters keep the units of the files and the source of each constant; the plan's own values count as
// assumed. Wrong files and impossible wiring are input errors with file, line and key. More GPUs than the switches can
// connect is infeasible.
model::Result<Topology> load_topology(const std::string& topology_path, const std::string& device_folder,
                                      const Variation& variation, const std::string& shipped = "");

struct KnownDevice {
  model::Device device;
  std::vector<std::string> aliases;  // names in the driver and in publications: "NVIDIA H200"
};

// Reads <name>.toml and the files that it extends, each in `folder` or else in `shipped`; a name that ends in .toml is
// a path. Applies `changes` to its constants, and appends them to `parameters` as "device.*". An unknown name is an
// input error with key cluster.device and the known names, and so is a file that lacks entries, with all of them.
model::Result<KnownDevice> load_device(const std::string& folder, const std::string& name,
                                       std::vector<model::Parameter>& parameters,
                                       const std::vector<model::ConstantChange>& changes = {},
                                       const std::string& shipped = "");

// Returns every device of a folder, ordered by name.
model::Result<std::vector<KnownDevice>> load_devices(const std::string& folder);

// Returns the device with this name or alias, ignoring case, or nullptr.
const model::Device* find_device(const std::vector<KnownDevice>& devices, std::string_view name);

}  // namespace plumbline::topologies
