// What topologies/ reads: clusters, GPUs, dumps of NCCL, placements.
#include <filesystem>
#include <set>

#include "tests/fuzz/targets.h"
#include "topologies/fabric.h"
#include "topologies/formats.h"
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

void read_placement(std::string_view input) {
  constexpr std::int64_t gpus = 8, gpus_per_node = 4;
  const std::string file = input_file("placement.txt", input);
  const auto placement = topologies::Placement::make("file:" + file, gpus, gpus_per_node);
  require_words(placement);
  if (!placement) return;
  std::set<std::int64_t> placed;
  for (std::int64_t rank = 0; rank < gpus; ++rank) placed.insert(placement->gpu(rank));
  require(std::ssize(placed) == gpus && *placed.begin() == 0 && *placed.rbegin() == gpus - 1, "two ranks share a GPU");
}

}  // namespace plumbline::fuzz
