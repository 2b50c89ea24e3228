#include "cli/show_topology.h"

#include <algorithm>

#include "cli/data.h"
#include "cli/output.h"
#include "cli/show.h"
#include "topologies/inventory.h"

namespace plumbline::cli {
namespace {

constexpr std::int64_t usual_gpus = 2048;

model::Result<topologies::Topology> load(const std::string& name, std::int64_t gpus) {
  const auto path = resolve_topology(name);
  if (!path) return tl::unexpected(path.error());
  const auto devices = resolve_device_folder(*path);
  if (!devices) return tl::unexpected(devices.error());
  topologies::Variation variation;
  variation.gpus = gpus;
  auto topology = topologies::load_topology(*path, *devices, variation);
  if (!topology || gpus > 0) return topology;
  topology->cluster.gpus = std::min(usual_gpus, topologies::capacity(topology->fabric).gpus);
  return topology;
}

}  // namespace

model::Result<std::string> show_topology(const std::string& name, std::int64_t gpus, const std::string& svg) {
  auto topology = load(name, gpus);
  if (!topology) return tl::unexpected(topology.error());
  const auto fabric = topologies::Fabric::make(topology->fabric, topology->cluster.gpus);
  if (!fabric) return tl::unexpected(fabric.error());
  topology->cluster.fabric = topologies::count_parts(*fabric);
  if (!svg.empty()) {
    const auto written = write_output(svg, topology_svg(*topology, *fabric));
    if (!written) return tl::unexpected(written.error());
    if (svg == "-") return std::string();
  }
  return topology_drawing(*topology, *fabric) + '\n' + topology_text(topology->cluster);
}

}  // namespace plumbline::cli
