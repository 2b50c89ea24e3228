#include "topologies/fabric.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>

#include "model/base/integers.h"

namespace plumbline::topologies {

std::string_view to_string(LinkKind kind) {
  static constexpr auto names = std::to_array<std::string_view>(
      {"GPU to node switch", "node switch to GPU", "GPU to GPU", "NIC to leaf", "leaf to NIC", "leaf to spine",
       "spine to leaf", "spine to core", "core to spine"});
  return names[static_cast<std::size_t>(kind)];
}

model::Result<Fabric> Fabric::outline(const FabricShape& shape, std::int64_t gpus) {
  if (auto error = find_fault(shape, gpus)) return tl::unexpected(*error);
  Fabric fabric;
  fabric.shape_ = shape;
  fabric.gpus_ = gpus;
  fabric.nodes_ = model::ceil_div(gpus, shape.gpus_per_node);
  fabric.lay_out();
  return fabric;
}

model::Result<Fabric> Fabric::make(const FabricShape& shape, std::int64_t gpus) {
  auto fabric = TRY(outline(shape, gpus));
  fabric.add_node_links();
  if (fabric.nodes_ > 1) {
    fabric.add_nic_links();
    fabric.add_switch_links();
  }
  return fabric;
}

void Fabric::lay_out() {
  if (shape_.layers == 0) {
    shape_.rails = shape_.planes = 1;
    return;
  }
  const FabricCapacity most = capacity(shape_);
  ports_ = std::min(shape_.nics, shape_.gpus_per_node);
  const std::int64_t bundle = shape_.nics / ports_;
  rails_per_plane_ = shape_.rails / shape_.planes;
  nodes_per_leaf_ = std::min(most.nodes_per_leaf, nodes_);
  nics_per_leaf_ = nodes_per_leaf_ * (ports_ / shape_.rails);
  leaves_per_plane_ = model::ceil_div(nodes_, nodes_per_leaf_) * rails_per_plane_;
  leaves_per_pod_ = leaves_per_plane_;
  if (shape_.layers == 1 || leaves_per_plane_ == 1) return;
  const auto wanted =
      static_cast<std::int64_t>(std::ceil(static_cast<double>(nics_per_leaf_) / shape_.oversubscription));
  spines_ = std::max<std::int64_t>(1, std::min(most.leaf_up / bundle, wanted));
  leaves_per_pod_ = std::min(leaves_per_plane_, most.leaves_per_pod);
  pods_ = model::ceil_div(leaves_per_plane_, leaves_per_pod_);
  if (pods_ > 1) cores_ = leaves_per_pod_;
}

void Fabric::add_node_links() {
  const double bandwidth = shape_.peer_bandwidth();
  for (std::int64_t gpu = 0; gpu < gpus_; ++gpu) {
    const std::string name = fmt::format("node{}.gpu{}", node(gpu), index_in_node(gpu));
    if (shape_.interconnect == Interconnect::switched) {
      links_.push_back({name + ".up", LinkKind::gpu_up, bandwidth, shape_.node_latency / 2});
      links_.push_back({name + ".down", LinkKind::gpu_down, bandwidth, shape_.node_latency / 2});
      continue;
    }
    for (std::int64_t peer = 0; peer < gpus_in(node(gpu)); ++peer) {
      if (peer == index_in_node(gpu)) continue;
      links_.push_back({fmt::format("{}.to{}", name, peer), LinkKind::mesh, bandwidth, shape_.node_latency});
    }
  }
}

double Fabric::port_bandwidth() const {
  const std::int64_t nics_per_port = shape_.nics / ports_;
  return shape_.nic_bandwidth * static_cast<double>(nics_per_port);
}

void Fabric::add_nic_links() {
  first_nic_link_ = static_cast<std::int64_t>(links_.size());
  const double bandwidth = port_bandwidth();
  for (std::int64_t i = 0; i < nodes_; ++i) {
    for (std::int64_t nic = 0; nic < ports_; ++nic) {
      const std::string name = fmt::format("node{}.nic{}", i, nic);
      links_.push_back({name + ".up", LinkKind::nic_up, bandwidth, shape_.nic_latency + shape_.switch_latency});
      links_.push_back({name + ".down", LinkKind::nic_down, bandwidth, shape_.nic_latency});
    }
  }
}

void Fabric::add_switch_links() {
  const double bandwidth = port_bandwidth();
  const auto add = [&](const std::string& name, LinkKind up, LinkKind down) {
    links_.push_back({name + ".up", up, bandwidth, shape_.switch_latency});
    links_.push_back({name + ".down", down, bandwidth, shape_.switch_latency});
  };
  first_leaf_link_ = static_cast<std::int64_t>(links_.size());
  for (std::int64_t l = 0; l < leaves() && spines_ > 0; ++l) {
    const std::string name = fmt::format("plane{}.leaf{}", l / leaves_per_plane_, l % leaves_per_plane_);
    for (std::int64_t s = 0; s < spines_; ++s)
      add(fmt::format("{}.spine{}", name, s), LinkKind::leaf_up, LinkKind::leaf_down);
  }
  first_spine_link_ = static_cast<std::int64_t>(links_.size());
  for (std::int64_t pod = 0; pod < shape_.planes * pods_ && cores_ > 0; ++pod) {
    for (std::int64_t s = 0; s < spines_; ++s) {
      const std::string name = fmt::format("plane{}.pod{}.spine{}", pod / pods_, pod % pods_, s);
      for (std::int64_t c = 0; c < cores_; ++c)
        add(fmt::format("{}.core{}", name, c), LinkKind::spine_up, LinkKind::spine_down);
    }
  }
}

std::int64_t Fabric::gpus_in(std::int64_t node) const {
  return std::min(shape_.gpus_per_node, gpus_ - node * shape_.gpus_per_node);
}

std::int64_t Fabric::leaf(std::int64_t gpu) const {
  return plane(gpu) * leaves_per_plane_ + node(gpu) / nodes_per_leaf_ * rails_per_plane_ + rail(gpu) % rails_per_plane_;
}

std::int64_t Fabric::nic_number(std::int64_t gpu) const {
  const std::int64_t on_leaf = node(gpu) % nodes_per_leaf_ * (ports_ / shape_.rails) + port(gpu) / shape_.rails;
  return leaf(gpu) % leaves_per_plane_ * nics_per_leaf_ + on_leaf;
}

LinkId Fabric::nic_up(std::int64_t gpu) const {
  return static_cast<LinkId>(first_nic_link_ + 2 * (node(gpu) * ports_ + port(gpu)));
}

LinkId Fabric::leaf_link(std::int64_t leaf, std::int64_t spine) const {
  return static_cast<LinkId>(first_leaf_link_ + 2 * (leaf * spines_ + spine));
}

LinkId Fabric::spine_link(std::int64_t pod, std::int64_t spine, std::int64_t core) const {
  return static_cast<LinkId>(first_spine_link_ + 2 * ((pod * spines_ + spine) * cores_ + core));
}

void Fabric::route_in_node(std::int64_t a, std::int64_t b, std::vector<LinkId>& out) const {
  if (shape_.interconnect == Interconnect::switched) {
    out.push_back(static_cast<LinkId>(2 * a));
    out.push_back(static_cast<LinkId>(2 * b + 1));
    return;
  }
  const std::int64_t peers = gpus_in(node(a)) - 1;
  const std::int64_t first = node(a) * shape_.gpus_per_node * (shape_.gpus_per_node - 1);
  const std::int64_t to = index_in_node(b) - (b > a ? 1 : 0);
  out.push_back(static_cast<LinkId>(first + index_in_node(a) * peers + to));
}

void Fabric::route_in_network(std::int64_t a, std::int64_t b, std::vector<LinkId>& out) const {
  out.push_back(nic_up(a));
  const std::int64_t from = leaf(a);
  const std::int64_t to = leaf(b);
  if (from != to) {
    const std::int64_t spine = nic_number(b) % spines_;
    const std::int64_t from_pod = pod_of_leaf(from);
    const std::int64_t to_pod = pod_of_leaf(to);
    out.push_back(leaf_link(from, spine));
    if (from_pod != to_pod) {
      const std::int64_t core = nic_number(b) / spines_ % cores_;
      out.push_back(spine_link(from_pod, spine, core));
      out.push_back(spine_link(to_pod, spine, core) + 1);
    }
    out.push_back(leaf_link(to, spine) + 1);
  }
  out.push_back(nic_down(b));
}

void Fabric::route(std::int64_t a, std::int64_t b, std::vector<LinkId>& out) const {
  assert(a >= 0 && a < gpus_ && b >= 0 && b < gpus_);
  if (a == b) return;
  if (node(a) == node(b)) return route_in_node(a, b, out);
  if (network(a) == network(b)) return route_in_network(a, b, out);
  const std::int64_t peer_of_a = node(a) * shape_.gpus_per_node + index_in_node(b);
  if (peer_of_a < gpus_) {
    route_in_node(a, peer_of_a, out);
    return route_in_network(peer_of_a, b, out);
  }
  const std::int64_t peer_of_b = node(b) * shape_.gpus_per_node + index_in_node(a);
  route_in_network(a, peer_of_b, out);
  route_in_node(peer_of_b, b, out);
}

}  // namespace plumbline::topologies
