#include "sim/network/step_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <set>
#include <span>

#include "model/plan/layout.h"
#include "model/plan/plan.h"

namespace plumbline::sim {
namespace {

using topologies::Fabric;

bool amount(double value) { return std::isfinite(value) && value >= 0; }
bool amounts(const std::vector<double>& values) { return std::all_of(values.begin(), values.end(), amount); }

std::string find_group_fault(const Fabric& fabric, const TrafficPattern& pattern) {
  std::set<std::int64_t> seen;
  for (const std::int64_t gpu : pattern.gpus) {
    if (gpu < 0 || gpu >= fabric.gpus()) return fmt::format("GPU {} is not one of {}", gpu, fabric.gpus());
    if (!seen.insert(gpu).second) return fmt::format("GPU {} is twice in the group", gpu);
  }
  if (!amount(pattern.token_bytes)) return fmt::format("{} bytes per token", pattern.token_bytes);
  if (pattern.kind == TrafficKind::message && pattern.gpus.size() != 2)
    return fmt::format("a message is between 2 ranks, not {}", pattern.gpus.size());
  return "";
}

std::string find_token_fault(const TrafficPattern& pattern) {
  const std::size_t ranks = pattern.gpus.size();
  if (pattern.tokens.size() != 1 && pattern.tokens.size() != ranks)
    return fmt::format("tokens of {} ranks for a group of {}", pattern.tokens.size(), ranks);
  if (!pattern.popularity.empty() && pattern.popularity.size() != ranks)
    return fmt::format("popularity of {} ranks for a group of {}", pattern.popularity.size(), ranks);
  if (!amounts(pattern.tokens) || !amounts(pattern.popularity)) return "tokens and popularity are finite amounts";
  const bool unpopular = std::accumulate(pattern.popularity.begin(), pattern.popularity.end(), 0.0) == 0;
  if (!pattern.popularity.empty() && unpopular) return "some rank must be popular";
  if (!amount(pattern.nodes_per_token) || !amount(pattern.ranks_per_token))
    return fmt::format("{} nodes and {} ranks per token", pattern.nodes_per_token, pattern.ranks_per_token);
  return "";
}

// Builds the transfers of a dispatch, node by node.
class TwoLeg {
 public:
  TwoLeg(const Fabric& fabric, const TrafficPattern& pattern) : fabric_(fabric), pattern_(pattern) {
    for (std::size_t rank = 0; rank < ranks(); ++rank) nodes_[fabric.node(gpu(rank))].push_back(rank);
    popularity_ = pattern.popularity.empty() ? std::vector<double>(ranks(), 1.0) : pattern.popularity;
    all_popularity_ = std::accumulate(popularity_.begin(), popularity_.end(), 0.0);
  }

  std::vector<Transfer> transfers() {
    for (const auto& [node, members] : nodes_)
      for (std::size_t place = 0; place < members.size(); ++place) send(node, members[place], place);
    for (const auto& [ends, bytes] : inside_) transfers_.push_back({ends.first, ends.second, bytes, 1});
    return std::move(transfers_);
  }

 private:
  std::size_t ranks() const { return pattern_.gpus.size(); }
  std::int64_t gpu(std::size_t rank) const { return pattern_.gpus[rank]; }
  double bytes(std::size_t rank) const {
    return pattern_.token_bytes * (pattern_.tokens.size() == 1 ? pattern_.tokens[0] : pattern_.tokens[rank]);
  }

  // Returns the GPU of the node where a rank's tokens land; `place` is the rank's index among its own node's members.
  std::int64_t landing(std::size_t rank, std::size_t place, const std::vector<std::size_t>& members) const {
    for (const std::size_t member : members)
      if (fabric_.index_in_node(gpu(member)) == fabric_.index_in_node(gpu(rank))) return gpu(member);
    return gpu(members[place % members.size()]);
  }

  void send(std::int64_t own_node, std::size_t rank, std::size_t place) {
    for (const auto& [node, members] : nodes_) {
      const std::int64_t lands = node == own_node ? gpu(rank) : landing(rank, place, members);
      double popularity = 0;
      for (const std::size_t member : members) {
        popularity += popularity_[member];
        const double share = std::min(1.0, pattern_.ranks_per_token * popularity_[member] / all_popularity_);
        if (gpu(member) != lands) inside_[{lands, gpu(member)}] += bytes(rank) * share;
      }
      const double share = std::min(1.0, pattern_.nodes_per_token * popularity / all_popularity_);
      if (node != own_node) transfers_.push_back({gpu(rank), lands, bytes(rank) * share, 0});
    }
  }

  const Fabric& fabric_;
  const TrafficPattern& pattern_;
  std::map<std::int64_t, std::vector<std::size_t>> nodes_;  // ranks of the group on each node
  std::vector<double> popularity_;
  double all_popularity_ = 0;
  std::vector<Transfer> transfers_;
  std::map<std::pair<std::int64_t, std::int64_t>, double> inside_;  // bytes from GPU to GPU of one node
};

std::vector<Transfer> all_to_all(const TrafficPattern& pattern) {
  std::vector<Transfer> transfers;
  for (const std::int64_t from : pattern.gpus) {
    for (const std::int64_t to : pattern.gpus)
      if (from != to) transfers.push_back({from, to, pattern.token_bytes, 0});
  }
  return transfers;
}

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

Footprint route_of(const Fabric& fabric, std::int64_t from, std::int64_t to) {
  std::vector<LinkId> links;
  fabric.route(from, to, links);
  Footprint footprint;
  for (const LinkId link : links) footprint.push_back({link, 1});
  return footprint;
}

std::vector<LinkId> links_of(const Fabric& fabric, std::span<const Transfer> transfers, std::int64_t gpu) {
  std::vector<LinkId> links;
  for (const Transfer& transfer : transfers)
    if (transfer.from == gpu || transfer.to == gpu) fabric.route(transfer.from, transfer.to, links);
  std::ranges::sort(links);
  links.erase(std::unique(links.begin(), links.end()), links.end());
  return links;
}

AllToAllLeg leg_of(const Fabric& fabric, const std::vector<Transfer>& all, std::uint8_t wanted, std::int64_t gpu,
                   bool every_link) {
  std::vector<Transfer> transfers;
  std::ranges::copy_if(all, std::back_inserter(transfers), [wanted](const Transfer& t) { return t.leg == wanted; });
  AllToAllLeg leg;
  double sent = 0;
  std::uint32_t parts = 0;
  for (const Transfer& transfer : transfers) {
    if (transfer.from != gpu) continue;
    sent += transfer.bytes;
    ++parts;
  }
  if (sent <= 0) return leg;
  leg.times = parts;
  const std::vector<double> loads = link_loads(fabric, transfers);
  const auto seconds = [&](LinkId link) { return loads[link] / fabric.link(link).bandwidth; };
  LinkId worst = 0;
  std::vector<LinkId> used;
  for (LinkId link = 0; link < loads.size(); ++link) {
    if (loads[link] == 0) continue;
    if (seconds(link) > seconds(worst)) worst = link;
    if (every_link) used.push_back(link);
  }
  if (!every_link) used = links_of(fabric, transfers, gpu);
  if (std::ranges::find(used, worst) == used.end()) used.push_back(worst);
  for (const LinkId link : used)
    leg.footprint.push_back({link, std::max(1U, static_cast<std::uint32_t>(std::lround(loads[link] / sent * parts)))});
  // SimGrid searches a flow's links for each time that it crosses one.
  std::uint32_t common = leg.times;
  for (const Crossing& crossing : leg.footprint) common = std::gcd(common, crossing.times);
  leg.times /= common;
  for (Crossing& crossing : leg.footprint) crossing.times /= common;
  leg.seconds_per_byte = seconds(worst) / sent;
  return leg;
}

}  // namespace

model::Result<std::vector<Transfer>> transfers_of(const Fabric& fabric, const TrafficPattern& pattern) {
  const bool two_leg = pattern.kind == TrafficKind::dispatch || pattern.kind == TrafficKind::combine;
  std::string fault = find_group_fault(fabric, pattern);
  if (fault.empty() && two_leg) fault = find_token_fault(pattern);
  if (!fault.empty()) return model::wrong_input("", fault);
  if (pattern.kind == TrafficKind::message)
    return std::vector<Transfer>{{pattern.gpus[0], pattern.gpus[1], pattern.token_bytes, 0}};
  if (pattern.kind == TrafficKind::all_to_all) return all_to_all(pattern);
  std::vector<Transfer> transfers = TwoLeg(fabric, pattern).transfers();
  if (pattern.kind == TrafficKind::combine)
    for (Transfer& transfer : transfers) std::swap(transfer.from, transfer.to);
  return transfers;
}

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

std::vector<TrafficPattern> expert_patterns(const model::Plan& plan, const topologies::Placement& placement,
                                            const model::RoutingSpread& spread) {
  std::vector<TrafficPattern> patterns;
  const auto& degrees = plan.parallelism;
  const model::RankGroup group = model::expert_group(degrees);
  const std::int64_t block = plan.cluster.gpus / degrees.pipeline;
  for (std::int64_t rank = 0; rank < degrees.pipeline; ++rank) {
    TrafficPattern& pattern = patterns.emplace_back();
    for (std::int64_t i = 0; i < group.ranks; ++i)
      pattern.gpus.push_back(placement.gpu(rank * block + i * group.stride));
    pattern.token_bytes = 1;
    pattern.tokens = {1};
    pattern.nodes_per_token = spread.nodes_per_token;
    pattern.ranks_per_token = spread.ranks_per_token;
  }
  return patterns;
}

model::Result<StepLinks> StepLinks::make(const topologies::FabricShape& shape, const model::Plan& plan,
                                         const model::RoutingSpread& spread, bool every_link,
                                         const Contention* contention) {
  auto fabric = TRY(Fabric::make(topologies::used_nodes(shape, plan), plan.cluster.gpus));
  const auto placement = TRY(topologies::placement_of(plan, fabric.gpus_per_node()));
  StepLinks links;
  links.fabric_ = std::make_shared<const Fabric>(std::move(fabric));
  const std::int64_t ranks = plan.parallelism.pipeline;
  for (const TrafficPattern& pattern : expert_patterns(plan, placement, spread)) {
    links.gpus_.push_back(pattern.gpus.front());
    RankLinks& own = links.all_to_alls_.emplace_back();
    if (plan.parallelism.expert == 1) continue;
    const auto transfers = TRY(transfers_of(*links.fabric_, pattern));
    own.network = leg_of(*links.fabric_, transfers, network_leg, links.gpus_.back(), every_link);
    own.node = leg_of(*links.fabric_, transfers, node_leg, links.gpus_.back(), every_link);
    if (contention != nullptr) own.network.contention = (*contention)[links.all_to_alls_.size() - 1];
    const double network_seconds = own.network.seconds_per_byte * own.network.contention;
    links.network_seconds_per_byte_ = std::max(links.network_seconds_per_byte_, network_seconds);
    links.node_seconds_per_byte_ = std::max(links.node_seconds_per_byte_, own.node.seconds_per_byte);
  }
  for (std::int32_t from = 0; from < ranks; ++from)
    for (std::int32_t to = 0; to < ranks; ++to)
      if (from != to) links.messages_[{from, to}] = route_of(*links.fabric_, links.gpus_[from], links.gpus_[to]);
  return links;
}

}  // namespace plumbline::sim
