#include "sim/network/group_links.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "sim/network/traffic.h"

namespace plumbline::sim {

namespace {

using Members = std::vector<std::int64_t>;  // GPUs of one group

// Returns the members of each group, over all pipeline ranks that hold the group's stage.
std::vector<Members> groups_of(const topologies::Placement& placement, std::int64_t pipeline,
                               const GroupPattern& pattern) {
  const std::int64_t block = placement.ranks() / pipeline;
  const std::int64_t holders = pattern.two_directions ? 2 : 1;
  const std::int64_t in_block = pattern.ranks / holders;
  std::vector<Members> groups;
  for (std::int64_t p = 0; p < pipeline / holders; ++p) {
    for (std::int64_t g = 0; g < block / in_block; ++g) {
      const std::int64_t first = g / pattern.stride * pattern.stride * in_block + g % pattern.stride;
      Members& members = groups.emplace_back();
      for (const std::int64_t holder : {p, pipeline - 1 - p}) {
        if (holder != p && !pattern.two_directions) break;
        for (std::int64_t i = 0; i < in_block; ++i)
          members.push_back(placement.gpu(holder * block + first + i * pattern.stride));
      }
    }
  }
  return groups;
}

// Returns the members by node, nodes in the order of their first members.
std::vector<Members> by_node(const topologies::Fabric& fabric, const Members& members) {
  std::vector<std::pair<std::int64_t, Members>> nodes;
  for (const std::int64_t gpu : members) {
    const std::int64_t node = fabric.node(gpu);
    auto known = std::ranges::find(nodes, node, &std::pair<std::int64_t, Members>::first);
    if (known == nodes.end()) known = nodes.insert(nodes.end(), {node, {}});
    known->second.push_back(gpu);
  }
  std::vector<Members> result;
  for (auto& [node, gpus] : nodes) result.push_back(std::move(gpus));
  return result;
}

// Where two nodes have different numbers of members, the rings of the larger set share the NICs of the smaller one.
void add_ring(const std::vector<Members>& nodes, std::vector<Transfer>& transfers) {
  for (std::size_t i = 0; i < nodes.size() && nodes.size() > 1; ++i) {
    const Members& from = nodes[i];
    const Members& to = nodes[(i + 1) % nodes.size()];
    const std::size_t rings = std::max(from.size(), to.size());
    const double bytes = static_cast<double>(std::min(from.size(), to.size())) / static_cast<double>(rings);
    for (std::size_t r = 0; r < rings; ++r) transfers.push_back({from[r % from.size()], to[r % to.size()], bytes});
  }
}

}  // namespace

GroupLinks group_links(const topologies::Fabric& fabric, const topologies::Placement& placement, std::int64_t pipeline,
                       const GroupPattern& pattern, double nic_bandwidth) {
  if (pattern.ranks == 1) return {};
  std::vector<Transfer> transfers;
  double members = 0, nodes = 0;
  for (const Members& group : groups_of(placement, pipeline, pattern)) {
    const std::vector<Members> parts = by_node(fabric, group);
    members += static_cast<double>(group.size());
    nodes += static_cast<double>(parts.size());
    add_ring(parts, transfers);
  }
  GroupLinks links;
  links.ranks_per_node = std::max<std::int64_t>(1, std::llround(members / nodes));
  links.slowdown = std::max(1.0, bottleneck_seconds(fabric, transfers) * nic_bandwidth);
  return links;
}

}  // namespace plumbline::sim
