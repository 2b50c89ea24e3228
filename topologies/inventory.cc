#include "topologies/inventory.h"

#include <algorithm>

namespace plumbline::topologies {
namespace {

double total(const std::vector<LinkGroup>& groups, LinkKind kind) {
  const auto found = std::ranges::find(groups, kind, &LinkGroup::kind);
  return found == groups.end() ? 0 : static_cast<double>(found->count) * found->bandwidth;
}

// Of `parts` equal parts, the smaller half.
double half(double whole, std::int64_t parts) {
  const std::int64_t smaller = parts / 2;
  return whole * static_cast<double>(smaller) / static_cast<double>(parts);
}

}  // namespace

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
