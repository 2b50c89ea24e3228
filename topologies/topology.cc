#include "topologies/topology.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/parameter_file.h"
#include "model/si_unit.h"
#include "topologies/detail/parameter_taker.h"
#include "topologies/device.h"

namespace plumbline::topologies {
namespace {

using model::Error;
using model::ErrorKind;
using model::Parameter;
using model::UnitDimension;

struct Fabric {
  std::int64_t rails = 0;
  std::int64_t switch_ports = 0;
  std::int64_t layers = 0;

  // Endpoints of a folded Clos network: every switch but the top ones gives half its ports upwards.
  double endpoints_per_rail() const {
    return 2 * std::pow(static_cast<double>(switch_ports) / 2, static_cast<double>(layers));
  }
};

// Replaces a constant by what the plan says, its provenance included.
void override_parameter(std::vector<Parameter>& parameters, std::string_view name, std::string_view key, double value,
                        std::string_view unit) {
  for (Parameter& parameter : parameters) {
    if (parameter.name != name) continue;
    parameter.value = value;
    parameter.unit = unit;
    parameter.kind = model::Evidence::assumed;
    parameter.source = fmt::format("the plan's {}", key);
    parameter.relative_uncertainty.reset();
  }
}

void apply(const Variation& variation, model::ClusterShape& shape) {
  shape.gpus = variation.gpus > 0 ? variation.gpus : shape.gpus_per_node;
  if (variation.nics_per_node) {
    shape.nics_per_node = *variation.nics_per_node;
    override_parameter(shape.parameters, "node.nics", "cluster.nics_per_node",
                       static_cast<double>(*variation.nics_per_node), "1");
  }
  if (variation.nic_gbps) {
    shape.nic_bandwidth = model::BytesPerSecond(*variation.nic_gbps * 1e9 / 8);
    override_parameter(shape.parameters, "node.nic_bandwidth", "cluster.nic_gbps", *variation.nic_gbps, "Gb/s");
  }
}

// Each rail is a network of its own; a node's NICs are dealt to the rails in turn.
std::optional<Error> check_wiring(const model::ClusterShape& shape, const Fabric& fabric, const std::string& path) {
  const std::int64_t nics_on_a_rail = (shape.nics_per_node + fabric.rails - 1) / fabric.rails;
  const double nodes = std::floor(fabric.endpoints_per_rail() / static_cast<double>(nics_on_a_rail));
  if (static_cast<double>(shape.nodes()) <= nodes) return std::nullopt;
  return Error{ErrorKind::infeasible,
               fmt::format("{} GPUs are {} nodes, the switches of {} connect {:.0f}", shape.gpus, shape.nodes(),
                           shape.name, nodes),
               path,
               0,
               "cluster.gpus",
               fmt::format("use at most {:.0f} GPUs", nodes * static_cast<double>(shape.gpus_per_node))};
}

}  // namespace

Variation variation_of(const model::Plan& plan) {
  return {plan.cluster.gpus, plan.cluster.device, plan.cluster.nics_per_node, plan.cluster.nic_gbps};
}

model::Result<model::ClusterShape> load_cluster(const std::string& topology_path, const std::string& device_folder,
                                                const Variation& variation) {
  const auto file = model::read_parameter_file(topology_path, {"name", "description", "device", "default_profile"});
  if (!file) return tl::unexpected(file.error());
  for (const std::string_view key : {"device", "default_profile"}) {
    if (file->text(key) != nullptr) continue;
    return tl::unexpected(Error{ErrorKind::input, "required key is missing", topology_path, 0, std::string(key),
                                fmt::format("add {} = \"...\" above the first table", key)});
  }
  model::ClusterShape shape;
  shape.name = file->text_or_empty("name");
  if (shape.name.empty()) shape.name = std::filesystem::path(topology_path).stem().string();
  shape.default_profile = file->text_or_empty("default_profile");
  ParameterTaker taker(*file, "", shape.parameters);
  shape.gpus_per_node = taker.count("node.gpus");
  shape.intra_node_bandwidth = model::BytesPerSecond(taker.take("node.gpu_bandwidth", UnitDimension::bytes_per_second));
  shape.nics_per_node = taker.count("node.nics");
  shape.nic_bandwidth = model::BytesPerSecond(taker.take("node.nic_bandwidth", UnitDimension::bytes_per_second));
  const Fabric fabric = {taker.count("fabric.rails"), taker.count("fabric.switch_ports"), taker.count("fabric.layers")};
  if (auto error = taker.finish()) return tl::unexpected(*error);
  auto device = load_device(device_folder, variation.device.value_or(file->text_or_empty("device")), shape.parameters);
  if (!device) {
    Error error = device.error();
    const bool from_topology = error.file.empty() && !variation.device;
    if (from_topology) {
      error.file = topology_path;
      error.line = file->text("device")->line;
      error.key = "device";
    }
    return tl::unexpected(error);
  }
  shape.device = device->device;
  apply(variation, shape);
  if (auto error = check_wiring(shape, fabric, topology_path)) return tl::unexpected(*error);
  return shape;
}

}  // namespace plumbline::topologies
