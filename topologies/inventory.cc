#include "topologies/inventory.h"

#include <algorithm>

#include "model/base/integers.h"

namespace plumbline::topologies {
namespace {

double total(const std::vector<LinkGroup>& groups, LinkKind kind) {
  const auto found = std::ranges::find(groups, kind, &LinkGroup::kind);
  return found == groups.end() ? 0 : static_cast<double>(found->count) * found->bandwidth;
}

// Returns the smaller half of `whole`, which has `parts` equal parts.
double half(double whole, std::int64_t parts) {
  const std::int64_t smaller = parts / 2;
  return whole * static_cast<double>(smaller) / static_cast<double>(parts);
}

}  // namespace

model::FabricParts count_parts(const Fabric& fabric) {
  model::FabricParts parts;
  if (fabric.nic_cables() == 0) return parts;
  const FabricShape& shape = fabric.shape();
  parts.nics = fabric.nic_cables();
  parts.links = fabric.spine_cables() + fabric.core_cables();
  parts.switches = fabric.leaves();
  if (fabric.pods() > 0) {
    // Pods share no spines, planes share no cores. The last pod may be smaller, but its spines count like the others'.
    const std::int64_t cables_of_pod =
        model::ceil_div(fabric.spine_cables() * fabric.leaves_per_pod(), fabric.leaves()) +
        model::ceil_div(fabric.core_cables(), fabric.pods());
    parts.switches += fabric.pods() * model::ceil_div(cables_of_pod, shape.switch_ports);
  }
  parts.switches += shape.planes * model::ceil_div(fabric.core_cables() / shape.planes, shape.switch_ports);
  return parts;
}

std::vector<LinkGroup> inventory(const Fabric& fabric) {
  std::vector<LinkGroup> groups;
  for (const Link& link : fabric.links()) {
    auto group = std::ranges::find(groups, link.kind, &LinkGroup::kind);
    if (group == groups.end()) group = groups.insert(group, {link.kind, 0, link.bandwidth});
    ++group->count;
  }
  std::ranges::sort(groups, {}, &LinkGroup::kind);
  return groups;
}

double bisection_bandwidth(const Fabric& fabric) {
  const FabricShape& shape = fabric.shape();
  if (fabric.nodes() == 1) {
    const std::int64_t senders = fabric.gpus() / 2;
    const bool mesh = shape.interconnect == Interconnect::mesh;
    const std::int64_t links = mesh ? senders * (fabric.gpus() - senders) : senders;
    return static_cast<double>(links) * shape.peer_bandwidth();
  }
  const std::vector<LinkGroup> groups = inventory(fabric);
  double smallest = half(total(groups, LinkKind::nic_up), fabric.nodes());
  const std::int64_t node_groups = fabric.leaves() / shape.rails;
  if (node_groups > 1) smallest = std::min(smallest, half(total(groups, LinkKind::leaf_up), node_groups));
  const std::int64_t pods = fabric.pods() / shape.planes;
  if (pods > 1) smallest = std::min(smallest, half(total(groups, LinkKind::spine_up), pods));
  return smallest;
}

}  // namespace plumbline::topologies
