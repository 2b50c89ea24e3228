#include "sim/network/step_links.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "model/plan/layout.h"
#include "sim/network/traffic.h"

namespace plumbline::sim {

namespace {

using topologies::Fabric;

Footprint route_of(const Fabric& fabric, std::int64_t from, std::int64_t to) {
  std::vector<LinkId> links;
  fabric.route(from, to, links);
  Footprint footprint;
  for (const LinkId link : links) footprint.push_back({link, 1});
  return footprint;
}

// Returns the links on the routes from and to one GPU.
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
    if (seconds(link) > seconds(worst)) worst = link;
    if (every_link && loads[link] > 0) used.push_back(link);
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

const Footprint& StepLinks::message(std::int32_t from, std::int32_t to) const { return messages_.at({from, to}); }

}  // namespace plumbline::sim
