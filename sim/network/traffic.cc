#include "sim/network/traffic.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>

namespace plumbline::sim {
namespace {

// Sizes of one leg's transfers count as equal up to the rounding of the arithmetic that made them.
constexpr double size_rounding = 1e-9;

std::map<std::uint8_t, std::vector<Transfer>> by_leg(std::span<const Transfer> transfers) {
  std::map<std::uint8_t, std::vector<Transfer>> legs;
  for (const Transfer& transfer : transfers)
    if (transfer.bytes > 0 && transfer.from != transfer.to) legs[transfer.leg].push_back(transfer);
  return legs;
}

bool one_size(std::span<const Transfer> transfers) {
  const double bytes = transfers.front().bytes;
  return std::all_of(transfers.begin(), transfers.end(),
                     [&](const Transfer& t) { return std::abs(t.bytes - bytes) <= size_rounding * bytes; });
}

// Returns each link once, with the number of times it is listed; reorders `links`.
Footprint footprint_of(std::vector<LinkId>& links) {
  std::sort(links.begin(), links.end());
  Footprint footprint;
  for (const LinkId link : links) {
    if (footprint.empty() || footprint.back().link != link) footprint.push_back({link, 0});
    ++footprint.back().times;
  }
  return footprint;
}

void append_one_by_one(const topologies::Fabric& fabric, std::span<const Transfer> transfers,
                       std::vector<TrafficFlow>& flows) {
  std::vector<LinkId> route;
  for (const Transfer& transfer : transfers) {
    route.clear();
    fabric.route(transfer.from, transfer.to, route);
    flows.push_back({footprint_of(route), transfer.bytes});
  }
}

}  // namespace

std::vector<double> link_loads(const topologies::Fabric& fabric, std::span<const Transfer> transfers) {
  std::vector<double> loads(fabric.links().size());
  std::vector<LinkId> route;
  for (const Transfer& transfer : transfers) {
    route.clear();
    fabric.route(transfer.from, transfer.to, route);
    for (const LinkId link : route) loads[link] += transfer.bytes;
  }
  return loads;
}

double bottleneck_seconds(const topologies::Fabric& fabric, std::span<const Transfer> transfers) {
  const std::vector<double> loads = link_loads(fabric, transfers);
  double seconds = 0;
  for (std::size_t link = 0; link < loads.size(); ++link)
    seconds = std::max(seconds, loads[link] / fabric.links()[link].bandwidth);
  return seconds;
}

std::vector<TrafficFlow> footprint_flows(const topologies::Fabric& fabric, std::span<const Transfer> transfers) {
  std::vector<TrafficFlow> flows;
  for (const auto& [leg, of_leg] : by_leg(transfers)) {
    if (!one_size(of_leg)) {
      append_one_by_one(fabric, of_leg, flows);
      continue;
    }
    std::vector<LinkId> links;
    for (const Transfer& transfer : of_leg) fabric.route(transfer.from, transfer.to, links);
    flows.push_back({footprint_of(links), of_leg.front().bytes});
  }
  return flows;
}

}  // namespace plumbline::sim
