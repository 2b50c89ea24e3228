#include "topologies/fabric.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>

#include "model/base/integers.h"
#include "model/profile/constant_rules.h"

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
  fabric.add_background();
  TRY(fabric.apply_factors());
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

void Fabric::add_background() {
  const Background& taken = shape_.background;
  for (Link& link : links_) {
    if (link.kind == LinkKind::nic_up || link.kind == LinkKind::nic_down) link.bandwidth *= 1 - taken.nic;
    if (link.kind == LinkKind::leaf_up || link.kind == LinkKind::leaf_down) link.bandwidth *= 1 - taken.leaf;
    if (link.kind == LinkKind::spine_up || link.kind == LinkKind::spine_down) link.bandwidth *= 1 - taken.spine;
  }
}

std::string Fabric::plane_name(LinkId link) const {
  const Link& nic = links_[link];
  if (nic.kind != LinkKind::nic_up && nic.kind != LinkKind::nic_down) return "";
  const std::int64_t port = (link - first_nic_link_) / 2 % ports_;
  return fmt::format("plane{}.{}", port % shape_.rails / rails_per_plane_, nic.name);
}

model::Result<std::vector<LinkId>> Fabric::find(std::string_view pattern) const {
  const std::string below = fmt::format("{}.*", pattern);
  const auto fits = [&](const std::string& name) {
    return model::name_fits(name, pattern) || model::name_fits(name, below);
  };
  std::vector<LinkId> found;
  for (LinkId link = 0; link < links_.size(); ++link)
    if (fits(links_[link].name) || fits(plane_name(link))) found.push_back(link);
  if (!found.empty()) return found;
  std::vector<std::string> names;
  for (LinkId link = 0; link < links_.size(); ++link) {
    names.push_back(links_[link].name);
    names.push_back(names.back().substr(0, names.back().rfind('.')));
  }
  for (std::int64_t plane = 0; plane < shape_.planes && nodes_ > 1; ++plane)
    names.push_back(fmt::format("plane{}", plane));
  return model::wrong_input("--degrade", fmt::format("there is no link '{}'", pattern),
                            model::did_you_mean(pattern, names, fmt::format("links are named like {}", names.front())));
}

model::Result<void> Fabric::apply_factors() {
  for (const LinkFactor& change : shape_.factors) {
    for (const LinkId link : TRY(find(change.pattern))) {
      if (change.factor > 0) {
        links_[link].bandwidth *= change.factor;
        continue;
      }
      const LinkKind kind = links_[link].kind;
      if (kind != LinkKind::nic_up && kind != LinkKind::nic_down) continue;  // no route avoids these
      lost_.resize(static_cast<std::size_t>(nodes_ * ports_));
      lost_[(link - first_nic_link_) / 2] = 1;
    }
  }
  for (std::int64_t index = 0; index < gpus_in(nodes_ - 1) && !lost_.empty(); ++index) {
    bool works = true;
    for (std::int64_t node = 0; node < nodes_; ++node) works = works && !is_lost(node * shape_.gpus_per_node + index);
    if (works) working_.push_back(index);
  }
  if (!lost_.empty() && working_.empty())
    return model::infeasible("--degrade", "no NIC is left that works on every node", "let one of them work");
  return {};
}

// The circle method colors the pairs of n nodes with n - 1 colors where n is even, so that a node has each color once.
std::int64_t Fabric::working_index(std::int64_t from_node, std::int64_t to_node, std::int64_t index) const {
  const auto colors = static_cast<std::int64_t>(working_.size());
  const std::int64_t x = from_node % (colors + 1), y = to_node % (colors + 1);
  const std::int64_t color = x == colors ? 2 * y : y == colors ? 2 * x : x + y;
  return working_[static_cast<std::size_t>((color + index) % colors)];
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
  std::int64_t exit = a, entry = b;
  if (network(a) != network(b)) {
    const std::int64_t peer_of_a = node(a) * shape_.gpus_per_node + index_in_node(b);
    if (peer_of_a < gpus_)
      exit = peer_of_a;
    else
      entry = node(b) * shape_.gpus_per_node + index_in_node(a);
  }
  if (is_lost(exit) || is_lost(entry)) {
    const std::int64_t index = working_index(node(a), node(b), index_in_node(exit));
    exit = node(a) * shape_.gpus_per_node + index;
    entry = node(b) * shape_.gpus_per_node + index;
  }
  if (exit != a) route_in_node(a, exit, out);
  route_in_network(exit, entry, out);
  if (entry != b) route_in_node(entry, b, out);
}

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
