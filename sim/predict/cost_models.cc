#include "sim/predict/cost_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "model/program/routing.h"
#include "sim/network/links_memo.h"
#include "sim/network/traffic.h"
#include "sim/predict/inputs.h"
#include "sim/predict/memos.h"
#include "topologies/placement.h"

namespace plumbline::sim {
namespace {

// Groups of one kind that together hold every rank. A stage's ranks are `block` in a row; a group takes
// `ranks` of them that are `stride` apart, and under two directions as many of the stage's other holder: that of
// pipeline rank p and of pipeline rank P - 1 - p.
struct GroupPattern {
  std::int64_t ranks = 1, stride = 1;  // of the whole group
  bool two_directions = false;
};

struct GroupLinks {
  std::int64_t ranks_per_node = 1;  // members on a node, on average, rounded
  // At least 1: seconds of the most loaded link over those of a NIC that carries the same ring alone.
  double slowdown = 1;
};

using Members = std::vector<std::int64_t>;  // GPUs of one group

// The members in every holder of the group's stage.
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

// By node, nodes in the order of their first members.
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

// Where two nodes hold different numbers of members, the fuller one's rings share the NICs of the other.
void add_ring(const std::vector<Members>& nodes, std::vector<Transfer>& transfers) {
  for (std::size_t i = 0; i < nodes.size() && nodes.size() > 1; ++i) {
    const Members& from = nodes[i];
    const Members& to = nodes[(i + 1) % nodes.size()];
    const std::size_t rings = std::max(from.size(), to.size());
    const double bytes = static_cast<double>(std::min(from.size(), to.size())) / static_cast<double>(rings);
    for (std::size_t r = 0; r < rings; ++r) transfers.push_back({from[r % from.size()], to[r % to.size()], bytes});
  }
}

// Each ring goes through the nodes of its group in the order in which the members come, over as many NICs of a node as
// it has members there; one byte per NIC. `pipeline` blocks of ranks fill the placement; nic_bandwidth (B/s) is one
// GPU's share of its node's NICs.
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

model::ExchangeCost::Group expert_group(const Inputs& inputs) {
  const model::RankGroup group = model::exchange_group(inputs.plan.parallelism);
  return {spread_of(inputs), group.ranks, group.stride};
}

// The groups of dense collectives as the placement spreads them over nodes and links.
model::Result<void> place_groups(const Inputs& inputs, const model::Layout& layout, const topologies::Fabric& fabric,
                                 model::ExchangeCost& exchanges) {
  const auto placement = topologies::placement_of(inputs.plan, fabric.gpus_per_node());
  if (!placement) return tl::unexpected(placement.error());
  const auto& degrees = inputs.plan.parallelism;
  std::vector<GroupPattern> patterns = {{layout.dense_group, layout.dense_stride, layout.two_directions},
                                        {layout.expert_group, layout.expert_stride, layout.two_directions}};
  for (const model::RankGroup& group : model::layer_groups(degrees)) patterns.push_back({group.ranks, group.stride});
  const double nic_bandwidth = inputs.cluster.inter_node_bandwidth().value();
  for (const GroupPattern& pattern : patterns) {
    if (pattern.ranks == 1) continue;
    const GroupLinks links = group_links(fabric, *placement, degrees.pipeline, pattern, nic_bandwidth);
    exchanges.place_group(pattern.ranks, pattern.stride, {pattern.ranks, links.ranks_per_node, links.slowdown});
  }
  return {};
}

// Dense collectives run on the SMs that are set aside, where there are some, else on as many as they want.
std::int64_t collective_sms(const Inputs& inputs, const model::ExchangeCost& exchanges) {
  const auto& overlap = inputs.plan.overlap;
  const std::int64_t most = inputs.cluster.device.sms - 1;
  const std::int64_t wanted = exchanges.collective_sms();
  const std::int64_t usual = overlap.communication_sms > 0 ? std::min(overlap.communication_sms, wanted) : wanted;
  return std::min(most, overlap.collective_sms.value_or(usual));
}

}  // namespace

model::Result<CostModels> cost_models(const Inputs& inputs, const model::Layout& layout) {
  const auto& overlap = inputs.plan.overlap;
  const model::Device& device = inputs.cluster.device;
  if (overlap.communication_sms >= device.sms)
    return tl::unexpected(model::plan_error(
        inputs.plan, model::ErrorKind::infeasible, "overlap.communication_sms",
        fmt::format("{} communication SMs leave none of {} to compute", overlap.communication_sms, device.sms),
        "give fewer"));
  if (inputs.plan.precision.gemm == model::Precision::tf32 && device.tf32_peak.value() == 0)
    return tl::unexpected(model::plan_error(inputs.plan, model::ErrorKind::infeasible, "precision.gemm",
                                            fmt::format("{} states no TF32 peak", device.name),
                                            "use bf16, fp16 or fp32"));
  const model::Result<model::KernelCost> kernels = model::KernelCost::make(inputs.profile, device);
  if (!kernels) return tl::unexpected(kernels.error());
  const model::Result<model::ExchangeCost> exchanges = model::ExchangeCost::make(
      inputs.profile, inputs.cluster, expert_group(inputs), {overlap.communication_kernels, overlap.communication_sms});
  if (!exchanges) {
    const model::Error& error = exchanges.error();
    if (error.key != "overlap.communication_kernels") return tl::unexpected(error);
    return tl::unexpected(model::plan_error(inputs.plan, error.kind, error.key, error.message, error.hint));
  }
  const bool set_aside = overlap.communication_sms > 0;
  const model::SmPolicy policy = set_aside ? model::sm_policy(overlap.sm_policy) : model::SmPolicy::none;
  const model::Result<model::HostCost> host = model::HostCost::make(inputs.profile, inputs.cluster, inputs.plan);
  if (!host) return tl::unexpected(host.error());
  const model::SmPartition partition{policy, device.sms, exchanges->kernel_sms(), collective_sms(inputs, *exchanges)};
  CostModels costs{*kernels, *exchanges, *host, partition, nullptr};
  if (inputs.fabric) {
    auto links = links_of(inputs, spread_of(inputs));
    if (!links) return tl::unexpected(links.error());
    costs.links = std::move(*links);
    if (auto placed = place_groups(inputs, layout, costs.links->fabric(), costs.exchanges); !placed)
      return tl::unexpected(placed.error());
  }
  return costs;
}

}  // namespace plumbline::sim
