#include "sim/network/group_links.h"

#include <algorithm>
#include <cmath>
#include <utility>

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
      for (std::int64_t copy = 0; copy < holders; ++copy) {
        const std::int64_t holder = copy == 0 ? p : pipeline - 1 - p;
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

// Returns how often one byte per NIC of the transfers crosses each link, and the links in ascending order.
std::vector<std::pair<LinkId, double>> loads_of(const topologies::Fabric& fabric,
                                                const std::vector<Transfer>& transfers) {
  std::vector<std::pair<LinkId, double>> loads;
  std::vector<LinkId> route;
  for (const Transfer& transfer : transfers) {
    route.clear();
    fabric.route(transfer.from, transfer.to, route);
    for (const LinkId link : route) loads.emplace_back(link, transfer.bytes);
  }
  std::ranges::sort(loads, {}, &std::pair<LinkId, double>::first);
  std::size_t used = 0;
  for (const auto& [link, bytes] : loads) {
    if (used == 0 || loads[used - 1].first != link)
      loads[used++] = {link, bytes};
    else
      loads[used - 1].second += bytes;
  }
  loads.resize(used);
  return loads;
}

// A link counts as crossed a whole number of times, and not more often than it is loaded.
Footprint ring_footprint(const topologies::Fabric& fabric, const std::vector<Transfer>& transfers, std::int64_t gpu) {
  const auto loads = loads_of(fabric, transfers);
  if (loads.empty()) return {};
  std::vector<Transfer> own;
  std::ranges::copy_if(transfers, std::back_inserter(own),
                       [gpu](const Transfer& transfer) { return transfer.from == gpu || transfer.to == gpu; });
  const auto seconds = [&](const auto& load) { return load.second / fabric.link(load.first).bandwidth; };
  const LinkId worst = std::ranges::max_element(loads, {}, seconds)->first;
  const auto of_gpu = loads_of(fabric, own);
  Footprint footprint;
  for (const auto& [link, load] : loads)
    if (link == worst || std::ranges::binary_search(of_gpu, link, {}, &std::pair<LinkId, double>::first))
      footprint.push_back({link, std::max(1U, static_cast<std::uint32_t>(load + 1e-9))});
  return footprint;
}

// The bytes go to all members in equal parts. In a mesh they are spread over all links of the GPU, as the rate of its
// collectives is.
AllToAllLeg leg_in_node(const topologies::Fabric& fabric, const Members& members) {
  std::vector<Transfer> transfers;
  for (const std::int64_t from : members)
    for (const std::int64_t to : members)
      if (from != to && (from == members.front() || to == members.front())) transfers.push_back({from, to, 1});
  AllToAllLeg leg;
  const bool mesh = fabric.shape().interconnect == topologies::Interconnect::mesh;
  leg.times = static_cast<std::uint32_t>(mesh ? fabric.gpus_per_node() - 1 : members.size() - 1);
  leg.footprint = ring_footprint(fabric, transfers, members.front());
  return leg;
}

// Returns the members, beginning with `first`.
Members members_from(Members members, std::int64_t first) {
  std::ranges::rotate(members, std::ranges::find(members, first));
  return members;
}

RankLinks links_of_rank(const topologies::Fabric& fabric, const std::vector<Transfer>& from_block,
                        const Members& members) {
  RankLinks links;
  links.network.footprint = ring_footprint(fabric, from_block, members.front());
  if (members.size() > 1) links.node = leg_in_node(fabric, members);
  return links;
}

}  // namespace

GroupLinks group_links(const topologies::Fabric& fabric, const topologies::Placement& placement, std::int64_t pipeline,
                       const GroupPattern& pattern, double nic_bandwidth) {
  if (pattern.ranks == 1) return {};
  const std::int64_t block = placement.ranks() / pipeline;
  std::vector<Transfer> transfers;
  double members = 0, nodes = 0;
  std::vector<std::vector<Transfer>> from_block(static_cast<std::size_t>(pipeline));
  std::vector<Members> with_first(static_cast<std::size_t>(pipeline));  // members on the node of each block's first GPU
  for (const Members& group : groups_of(placement, pipeline, pattern)) {
    const std::vector<Members> parts = by_node(fabric, group);
    members += static_cast<double>(group.size());
    nodes += static_cast<double>(parts.size());
    const std::size_t before = transfers.size();
    add_ring(parts, transfers);
    for (std::size_t i = before; i < transfers.size(); ++i)
      from_block[static_cast<std::size_t>(placement.rank(transfers[i].from) / block)].push_back(transfers[i]);
    for (const Members& part : parts)
      for (const std::int64_t gpu : part)
        if (placement.rank(gpu) % block == 0)
          with_first[static_cast<std::size_t>(placement.rank(gpu) / block)] = members_from(part, gpu);
  }
  std::vector<RankLinks> ranks;
  for (std::size_t p = 0; p < from_block.size(); ++p)
    ranks.push_back(links_of_rank(fabric, from_block[p], with_first[p]));
  GroupLinks links;
  links.ranks_per_node = std::max<std::int64_t>(1, std::llround(members / nodes));
  links.slowdown = std::max(1.0, bottleneck_seconds(fabric, transfers) * nic_bandwidth);
  links.ranks = std::make_shared<const std::vector<RankLinks>>(std::move(ranks));
  return links;
}

}  // namespace plumbline::sim
