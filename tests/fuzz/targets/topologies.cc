// What topologies/ reads: clusters, GPUs, dumps of NCCL.
#include <filesystem>

#include "tests/fuzz/targets.h"
#include "topologies/device.h"
#include "topologies/nccl_topology.h"
#include "topologies/topology.h"

namespace plumbline::fuzz {

void read_topology(std::string_view input) {
  require_words(topologies::load_topology(input_file("topology.toml", input), in_repository("topologies/devices"), {}));
}

void read_device(std::string_view input) {
  const std::filesystem::path file = input_file("devices/device.toml", input);
  std::vector<model::Parameter> parameters;
  require_words(topologies::load_device(file.parent_path().string(), "device", parameters));
}

// A dump that is imported becomes a file that reads as a topology, or whose wiring is refused in words.
void read_nccl_topology(std::string_view input) {
  const auto imported = topologies::import_nccl_topology(input_file("dump.xml", input));
  require_words(imported);
  if (imported) read_topology(imported->toml);
}

}  // namespace plumbline::fuzz
