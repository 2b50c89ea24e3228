// GPUs as data: topologies/devices/<name>.toml, with the names that they go by elsewhere.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "model/profile/cluster.h"
#include "model/profile/constant_change.h"

namespace plumbline::topologies {

struct KnownDevice {
  model::Device device;
  std::vector<std::string> aliases;  // as its driver and publications call it: "NVIDIA H200"
};

// Reads <folder>/<name>.toml and appends its constants to `parameters` as "device.*". A miss is an input
// error with key cluster.device that lists the names there are. `changes` are made to the file's constants.
model::Result<KnownDevice> load_device(const std::string& folder, const std::string& name,
                                       std::vector<model::Parameter>& parameters,
                                       const std::vector<model::ConstantChange>& changes = {});

// Every device of a folder, ordered by name.
model::Result<std::vector<KnownDevice>> load_devices(const std::string& folder);

// By name or alias, whatever the case of the letters; nullptr when none is called so.
const model::Device* find_device(const std::vector<KnownDevice>& devices, std::string_view name);

}  // namespace plumbline::topologies
