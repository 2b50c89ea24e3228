#include "topologies/fabric_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/base/integers.h"

namespace plumbline::topologies {
namespace {

using model::Error;

std::optional<Error> fault(std::string key, std::string message, std::string hint) {
  return Error{model::ErrorKind::input, std::move(message), "", 0, std::move(key), std::move(hint)};
}

std::optional<Error> find_fault_in_node(const FabricShape& shape) {
  if (shape.gpus_per_node < 1) return fault("node.gpus", "a node has at least one GPU", "");
  const bool mesh = shape.interconnect == Interconnect::mesh;
  if (mesh && shape.gpus_per_node < 2)
    return fault("node.gpus", "a mesh connects at least two GPUs", "use interconnect = \"switch\" for a single GPU");
  if (shape.gpu_bandwidth <= 0 && shape.gpus_per_node > 1)
    return fault(mesh ? "node.peer_bandwidth" : "node.gpu_bandwidth", "links of no bandwidth connect nothing", "");
  return std::nullopt;
}

std::optional<Error> find_fault_in_nics(const FabricShape& shape) {
  if (shape.nics < 1)
    return fault("node.nics", "a fabric of switches needs NICs", "give nodes NICs, or set fabric.layers = 0");
  if (shape.nic_bandwidth <= 0) return fault("node.nic_bandwidth", "links of no bandwidth connect nothing", "");
  if (shape.nics > shape.gpus_per_node && shape.nics % shape.gpus_per_node != 0)
    return fault("node.nics", fmt::format("{} NICs cannot be dealt evenly to {} GPUs", shape.nics, shape.gpus_per_node),
                 "use a multiple of the GPUs of a node, or fewer NICs than GPUs");
  if (shape.rails < 1 || shape.nics % shape.rails != 0)
    return fault("fabric.rails",
                 fmt::format("{} NICs of a node cannot be dealt evenly to {} rails", shape.nics, shape.rails),
                 "use a divisor of node.nics");
  if (shape.rails > shape.gpus_per_node)
    return fault("fabric.rails", fmt::format("{} rails for {} GPUs of a node", shape.rails, shape.gpus_per_node),
                 "use at most one rail per GPU of a node");
  if (shape.planes < 1 || shape.rails % shape.planes != 0)
    return fault("fabric.planes",
                 fmt::format("{} rails cannot be dealt evenly to {} planes", shape.rails, shape.planes),
                 "use a divisor of fabric.rails");
  return std::nullopt;
}

std::optional<Error> find_fault_in_background(const Background& background) {
  for (const double share : {background.nic, background.leaf, background.spine})
    if (!(share >= 0 && share < 1))
      return fault("cluster.background", fmt::format("others take {} of a tier's bandwidth", share),
                   "use a share from 0 to below 1");
  return std::nullopt;
}

std::optional<Error> find_fault_in_switches(const FabricShape& shape) {
  if (shape.oversubscription < 1)
    return fault("fabric.oversubscription", fmt::format("{} is below 1", shape.oversubscription),
                 "it is ports of a leaf towards NICs over ports towards spines; 1 is non-blocking");
  const FabricCapacity most = capacity(shape);
  if (shape.layers > 1 && most.leaf_up < 1)
    return fault("fabric.oversubscription",
                 fmt::format("{} leaves no port of {} towards the spines", shape.oversubscription, shape.switch_ports),
                 "use a smaller oversubscription or switches of more ports");
  if (most.nodes_per_leaf < 1)
    return fault("fabric.switch_ports",
                 fmt::format("a leaf has {} ports towards NICs, a node brings {} of one rail", most.leaf_down,
                             shape.nics / shape.rails),
                 "use switches of more ports or more rails");
  if (most.nodes < 1)
    return fault("fabric.switch_ports",
                 fmt::format("{} ports connect fewer leaves than a plane has rails", shape.switch_ports),
                 "use switches of more ports, more layers or more planes");
  return std::nullopt;
}

}  // namespace

std::string_view to_string(Interconnect interconnect) { return interconnect == Interconnect::mesh ? "mesh" : "switch"; }

std::optional<Error> find_fault(const FabricShape& shape) {
  if (auto error = find_fault_in_node(shape)) return error;
  if (auto error = find_fault_in_background(shape.background)) return error;
  if (shape.layers < 0 || shape.layers > 3)
    return fault("fabric.layers", fmt::format("{} layers of switches", shape.layers), "use 0, 1, 2 or 3");
  if (shape.layers == 0) return std::nullopt;
  if (auto error = find_fault_in_nics(shape)) return error;
  return find_fault_in_switches(shape);
}

std::optional<Error> find_fault(const FabricShape& shape, std::int64_t gpus) {
  if (auto error = find_fault(shape)) return error;
  if (gpus < 1) return fault("cluster.gpus", "a cluster has at least one GPU", "");
  const FabricCapacity most = capacity(shape);
  if (gpus <= most.gpus) return std::nullopt;
  const std::int64_t nodes = model::ceil_div(gpus, shape.gpus_per_node);
  return Error{model::ErrorKind::infeasible,
               fmt::format("{} GPUs are {} nodes, the wiring connects {}", gpus, nodes, most.nodes),
               "",
               0,
               "cluster.gpus",
               fmt::format("use at most {} GPUs", most.gpus)};
}

FabricCapacity capacity(const FabricShape& shape) {
  FabricCapacity most;
  if (shape.layers == 0) {
    most.nodes = 1;
    most.gpus = shape.gpus_per_node;
    return most;
  }
  if (shape.layers == 1) {
    most.leaf_down = shape.switch_ports;
    most.leaves = shape.rails / shape.planes;
    most.leaves_per_pod = most.leaves;
  } else {
    const double share_up = 1 / (1 + shape.oversubscription);
    most.leaf_up = static_cast<std::int64_t>(std::floor(static_cast<double>(shape.switch_ports) * share_up));
    most.leaf_down = static_cast<std::int64_t>(std::floor(static_cast<double>(most.leaf_up) * shape.oversubscription));
    const std::int64_t rails = shape.rails / shape.planes;
    most.leaves_per_pod = (shape.layers == 2 ? shape.switch_ports : shape.switch_ports / 2) / rails * rails;
    most.leaves = most.leaves_per_pod * (shape.layers == 2 ? 1 : shape.switch_ports);
  }
  most.nodes_per_leaf = most.leaf_down / (shape.nics / shape.rails);
  most.nodes = most.leaves / (shape.rails / shape.planes) * most.nodes_per_leaf;
  most.gpus = most.nodes * shape.gpus_per_node;
  return most;
}

}  // namespace plumbline::topologies
