// GPUs as data: topologies/devices/<name>.toml, with their aliases.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "model/profile/cluster.h"
#include "model/profile/constant_rules.h"

namespace plumbline::topologies {

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
