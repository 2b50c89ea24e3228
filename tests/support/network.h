// Fabrics and links for tests of the network.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/engine/loop.h"
#include "sim/network/step_links.h"
#include "sim/network/traffic.h"
#include "topologies/fabric.h"

namespace plumbline::tests {

// Vec8 GPUs of 160 GB/s per node, each with a NIC of 50 GB/s on a plane of its own: two layers of switches, leaves
// with `down` ports towards nodes.
inline topologies::FabricShape planes_of_nodes(double oversubscription = 1, std::int64_t down = 32) {
  topologies::FabricShape shape;
  shape.gpus_per_node = shape.nics = shape.planes = shape.rails = 8;
  shape.gpu_bandwidth = 160e9;
  shape.nic_bandwidth = 50e9;
  shape.layers = 2;
  shape.oversubscription = oversubscription;
  shape.switch_ports = down + static_cast<std::int64_t>(static_cast<double>(down) / oversubscription);
  return shape;
}

inline std::vector<topologies::Link> links_of(const std::vector<double>& bandwidths) {
  std::vector<topologies::Link> links;
  for (const double bandwidth : bandwidths)
    links.push_back({"link" + std::to_string(links.size()), topologies::LinkKind::nic_up, bandwidth, 0});
  return links;
}

// DeepSeek-V3's dispatch over 64 ranks on 8 nodes: 4,096 tokens of 7,392 B (7,168 FP8 values and their scales), each
// to 4 of the 8 nodes: 4096 * 4 / 8 * 7392 = 15,138,816 B from each GPU to each other node.
inline sim::TrafficPattern expert_dispatch(std::vector<std::int64_t> gpus, double ranks_per_token = 6.4) {
  sim::TrafficPattern pattern;
  pattern.gpus = std::move(gpus);
  pattern.token_bytes = 7392;
  pattern.tokens = {4096};
  pattern.nodes_per_token = 4;
  pattern.ranks_per_token = ranks_per_token;
  return pattern;
}

inline std::vector<std::int64_t> gpus_from(std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> gpus;
  for (std::int64_t gpu = first; gpu < first + count; ++gpu) gpus.push_back(gpu);
  return gpus;
}

// Returns one flow per transfer over its route.
inline std::vector<sim::TrafficFlow> flow_by_flow(const topologies::Fabric& fabric,
                                                  std::span<const sim::Transfer> transfers) {
  std::vector<sim::TrafficFlow> flows;
  for (const sim::Transfer& transfer : transfers) {
    std::vector<topologies::LinkId> route;
    fabric.route(transfer.from, transfer.to, route);
    sim::TrafficFlow& flow = flows.emplace_back();
    for (const topologies::LinkId link : route) flow.footprint.push_back({link, 1});
    flow.bytes = transfer.bytes;
  }
  return flows;
}

// Runs an action when an event is due, and records the time.
class Script final : public sim::Handler {
 public:
  explicit Script(sim::Loop& loop) : loop_(loop) {}

  // Returns a task that records its time under `name` and then runs `action`.
  sim::Task task(std::string name, std::function<void()> action = {}, std::uint16_t priority = 0) {
    steps_.push_back({std::move(name), std::move(action)});
    return {this, 0, priority, steps_.size() - 1};
  }
  void handle(std::uint32_t, std::uint64_t argument) override {
    seen.emplace_back(steps_[argument].first, loop_.now());
    if (const auto action = steps_[argument].second) action();
  }

  std::vector<std::pair<std::string, sim::Time>> seen;

 private:
  sim::Loop& loop_;
  std::vector<std::pair<std::string, std::function<void()>>> steps_;
};

}  // namespace plumbline::tests
