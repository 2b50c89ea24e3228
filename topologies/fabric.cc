#include "topologies/fabric.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <utility>

#include "model/base/integers.h"
#include "model/base/random.h"
#include "model/base/text.h"
#include "model/base/text_file.h"
#include "model/plan/layout.h"
#include "model/plan/plan.h"
#include "model/profile/constant_rules.h"

namespace plumbline::topologies {
namespace {

using model::Error;

std::optional<Error> fault(std::string key, std::string message, std::string hint) {
  return Error{model::ErrorKind::input, std::move(message), "", 0, std::move(key), std::move(hint)};
}

std::optional<Error> find_fault_in_node(const FabricShape& shape) {
  if (shape.gpus_per_node < 1) return fault("node.gpus", "a node has at least one GPU", "");
  const bool mesh = shape.interconnect == Interconnect::mesh;
  if (mesh && shape.gpus_per_node < 2)
    return fault("node.gpus", "a mesh connects at least two GPUs", "use interconnect = \"switch\" for a single GPU");
  if (shape.gpu_bandwidth <= 0 && shape.gpus_per_node > 1)
    return fault(mesh ? "node.peer_bandwidth" : "node.gpu_bandwidth", "links of no bandwidth connect nothing", "");
  return std::nullopt;
}

std::optional<Error> find_fault_in_nics(const FabricShape& shape) {
  if (shape.nics < 1)
    return fault("node.nics", "a fabric of switches needs NICs", "give nodes NICs, or set fabric.layers = 0");
  if (shape.nic_bandwidth <= 0) return fault("node.nic_bandwidth", "links of no bandwidth connect nothing", "");
  if (shape.nics > shape.gpus_per_node && shape.nics % shape.gpus_per_node != 0)
    return fault("node.nics", fmt::format("{} NICs cannot be dealt evenly to {} GPUs", shape.nics, shape.gpus_per_node),
                 "use a multiple of the GPUs of a node, or fewer NICs than GPUs");
  if (shape.rails < 1 || shape.nics % shape.rails != 0)
    return fault("fabric.rails",
                 fmt::format("{} NICs of a node cannot be dealt evenly to {} rails", shape.nics, shape.rails),
                 "use a divisor of node.nics");
  if (shape.rails > shape.gpus_per_node)
    return fault("fabric.rails", fmt::format("{} rails for {} GPUs of a node", shape.rails, shape.gpus_per_node),
                 "use at most one rail per GPU of a node");
  if (shape.planes < 1 || shape.rails % shape.planes != 0)
    return fault("fabric.planes",
                 fmt::format("{} rails cannot be dealt evenly to {} planes", shape.rails, shape.planes),
                 "use a divisor of fabric.rails");
  return std::nullopt;
}

std::optional<Error> find_fault_in_background(const Background& background) {
  for (const double share : {background.nic, background.leaf, background.spine})
    if (!(share >= 0 && share < 1))
      return fault("cluster.background", fmt::format("others take {} of a tier's bandwidth", share),
                   "use a share from 0 to below 1");
  return std::nullopt;
}

std::optional<Error> find_fault_in_switches(const FabricShape& shape) {
  if (shape.oversubscription < 1)
    return fault("fabric.oversubscription", fmt::format("{} is below 1", shape.oversubscription),
                 "it is ports of a leaf towards NICs over ports towards spines; 1 is non-blocking");
  const FabricCapacity most = capacity(shape);
  if (shape.layers > 1 && most.leaf_up < 1)
    return fault("fabric.oversubscription",
                 fmt::format("{} leaves no port of {} towards the spines", shape.oversubscription, shape.switch_ports),
                 "use a smaller oversubscription or switches of more ports");
  if (most.nodes_per_leaf < 1)
    return fault("fabric.switch_ports",
                 fmt::format("a leaf has {} ports towards NICs, a node brings {} of one rail", most.leaf_down,
                             shape.nics / shape.rails),
                 "use switches of more ports or more rails");
  if (most.nodes < 1)
    return fault("fabric.switch_ports",
                 fmt::format("{} ports connect fewer leaves than a plane has rails", shape.switch_ports),
                 "use switches of more ports, more layers or more planes");
  return std::nullopt;
}

}  // namespace

std::string_view to_string(Interconnect interconnect) { return interconnect == Interconnect::mesh ? "mesh" : "switch"; }

std::optional<Error> find_fault(const FabricShape& shape) {
  if (auto error = find_fault_in_node(shape)) return error;
  if (auto error = find_fault_in_background(shape.background)) return error;
  if (shape.layers < 0 || shape.layers > 3)
    return fault("fabric.layers", fmt::format("{} layers of switches", shape.layers), "use 0, 1, 2 or 3");
  if (shape.layers == 0) return std::nullopt;
  if (auto error = find_fault_in_nics(shape)) return error;
  return find_fault_in_switches(shape);
}

std::optional<Error> find_fault(const FabricShape& shape, std::int64_t gpus) {
  if (auto error = find_fault(shape)) return error;
  if (gpus < 1) return fault("cluster.gpus", "a cluster has at least one GPU", "");
  const FabricCapacity most = capacity(shape);
  if (gpus <= most.gpus) return std::nullopt;
  const std::int64_t nodes = model::ceil_div(gpus, shape.gpus_per_node);
  return Error{model::ErrorKind::infeasible,
               fmt::format("{} GPUs are {} nodes, the wiring connects {}", gpus, nodes, most.nodes),
               "",
               0,
               "cluster.gpus",
               fmt::format("use at most {} GPUs", most.gpus)};
}

FabricCapacity capacity(const FabricShape& shape) {
  FabricCapacity most;
  if (shape.layers == 0) {
    most.nodes = 1;
    most.gpus = shape.gpus_per_node;
    return most;
  }
  if (shape.layers == 1) {
    most.leaf_down = shape.switch_ports;
    most.leaves = shape.rails / shape.planes;
    most.leaves_per_pod = most.leaves;
  } else {
    const double share_up = 1 / (1 + shape.oversubscription);
    most.leaf_up = static_cast<std::int64_t>(std::floor(static_cast<double>(shape.switch_ports) * share_up));
    most.leaf_down = static_cast<std::int64_t>(std::floor(static_cast<double>(most.leaf_up) * shape.oversubscription));
    const std::int64_t rails = shape.rails / shape.planes;
    most.leaves_per_pod = (shape.layers == 2 ? shape.switch_ports : shape.switch_ports / 2) / rails * rails;
    most.leaves = most.leaves_per_pod * (shape.layers == 2 ? 1 : shape.switch_ports);
  }
  most.nodes_per_leaf = most.leaf_down / (shape.nics / shape.rails);
  most.nodes = most.leaves / (shape.rails / shape.planes) * most.nodes_per_leaf;
  most.gpus = most.nodes * shape.gpus_per_node;
  return most;
}

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

namespace {

using Gpus = std::vector<std::int64_t>;

constexpr std::string_view placement_key = "cluster.placement";

Gpus striped(std::int64_t gpus, std::int64_t gpus_per_node) {
  Gpus order;
  for (std::int64_t index = 0; index < gpus_per_node; ++index)
    for (std::int64_t gpu = index; gpu < gpus; gpu += gpus_per_node) order.push_back(gpu);
  return order;
}

Gpus random_nodes(std::int64_t gpus, std::int64_t gpus_per_node, std::uint64_t seed) {
  Gpus nodes(static_cast<std::size_t>(model::ceil_div(gpus, gpus_per_node)));
  std::iota(nodes.begin(), nodes.end(), 0);
  model::Random random(seed);
  for (std::size_t left = nodes.size(); left > 1; --left)
    std::swap(nodes[left - 1], nodes[static_cast<std::size_t>(random.next() % left)]);
  Gpus order;
  for (const std::int64_t node : nodes)
    for (std::int64_t gpu = node * gpus_per_node; gpu < std::min(gpus, (node + 1) * gpus_per_node); ++gpu)
      order.push_back(gpu);
  return order;
}

model::Result<Gpus> from_file(const std::string& path, std::int64_t gpus) {
  const auto text = TRY(model::read_text_file(path));
  const auto wrong = [&](int line, std::string message, std::string hint) {
    return model::wrong_input_at(path, line, "", std::move(message), std::move(hint));
  };
  Gpus order;
  std::vector<int> line_of(static_cast<std::size_t>(gpus), 0);
  int line = 0;
  for (const std::string_view text_of_line : model::lines_of(text)) {
    ++line;
    const std::string_view word = model::trimmed(text_of_line);
    if (word.empty() || word.front() == '#') continue;
    const auto gpu = model::parse_number<std::int64_t>(word);
    if (!gpu) return wrong(line, fmt::format("'{}' is not the number of a GPU", word), "write one number on each line");
    if (*gpu < 0 || *gpu >= gpus)
      return wrong(line, fmt::format("there is no GPU {}", *gpu), fmt::format("the cluster has 0 to {}", gpus - 1));
    int& first = line_of[static_cast<std::size_t>(*gpu)];
    if (first > 0)
      return wrong(line, fmt::format("GPU {} is given twice", *gpu), fmt::format("first on line {}", first));
    first = line;
    order.push_back(*gpu);
  }
  if (static_cast<std::int64_t>(order.size()) < gpus)
    return wrong(0, fmt::format("rank {} has no GPU", order.size()), fmt::format("the plan has {} ranks", gpus));
  return order;
}

// Returns over how many consecutive ranks an expert group reaches.
std::int64_t expert_span(const model::Plan& plan) {
  const model::RankGroup group = model::expert_group(plan.parallelism);
  return group.ranks > 1 ? group.ranks * group.stride : 1;
}

// Returns nodes of which only so many GPUs are used, with their NICs, or what is wrong with these.
model::Result<FabricShape> nodes_of(const FabricShape& shape, std::int64_t used) {
  const std::int64_t node = shape.gpus_per_node;
  if (used == node) return shape;
  if (used > node) return model::wrong_input("node.gpus", "it has no more");
  if (shape.nics * used % node != 0)
    return model::wrong_input("node.nics", fmt::format("they do not have whole NICs of its {}", shape.nics));
  FabricShape nodes = shape;
  nodes.gpus_per_node = used;
  nodes.nics = shape.nics * used / node;
  // The links of a mesh to idle GPUs carry nothing.
  if (shape.interconnect == Interconnect::mesh)
    nodes.gpu_bandwidth = shape.peer_bandwidth() * static_cast<double>(used - 1);
  if (const auto fault = find_fault(nodes)) return tl::unexpected(*fault);
  return nodes;
}

// Returns the nodes with the most GPUs that hold whole groups: a multiple of the tensor degree that is one of the
// expert group, or divides it.
FabricShape nodes_of_whole_groups(const FabricShape& shape, const model::Plan& plan) {
  const std::int64_t node = shape.gpus_per_node, expert = expert_span(plan);
  const std::int64_t least = expert <= node ? 1 : node - node / 8;
  for (std::int64_t used = node; used >= least; --used) {
    if (used % plan.parallelism.tensor != 0 || (expert <= node ? used % expert : expert % used) != 0) continue;
    const auto nodes = nodes_of(shape, used);
    if (nodes && !find_fault(*nodes, plan.cluster.gpus)) return *nodes;
  }
  return shape;
}

// Returns "use 8 or 12": the nearest numbers of GPUs that can be used of a node.
std::string usable_numbers(const FabricShape& shape, std::int64_t refused) {
  const std::int64_t node = shape.gpus_per_node;
  std::int64_t below = std::min(refused - 1, node), above = std::max<std::int64_t>(refused, 0) + 1;
  while (below > 0 && !nodes_of(shape, below)) --below;
  while (above <= node && !nodes_of(shape, above)) ++above;
  if (below < 1 || above > node) return fmt::format("use {}", below < 1 ? above : below);
  return fmt::format("use {} or {}", below, above);
}

}  // namespace

Placement::Placement(Gpus gpu_of_rank) : gpus_(std::move(gpu_of_rank)), ranks_(gpus_.size()) {
  for (std::size_t rank = 0; rank < gpus_.size(); ++rank)
    ranks_[static_cast<std::size_t>(gpus_[rank])] = static_cast<std::int64_t>(rank);
}

model::Result<Placement> Placement::make(std::string_view rule, std::int64_t gpus, std::int64_t gpus_per_node) {
  const std::size_t colon = std::min(rule.find(':'), rule.size());
  const std::string_view kind = rule.substr(0, colon);
  const std::string_view detail = rule.substr(std::min(colon + 1, rule.size()));
  if (rule == "contiguous") {
    Gpus order(static_cast<std::size_t>(gpus));
    std::iota(order.begin(), order.end(), 0);
    return Placement(std::move(order));
  }
  if (rule == "striped") return Placement(striped(gpus, gpus_per_node));
  if (kind == "random") {
    const auto seed = model::parse_number<std::uint64_t>(detail);
    if (!seed)
      return model::wrong_input(std::string(placement_key), fmt::format("'{}' has no seed", rule),
                                "write random:1, for example");
    return Placement(random_nodes(gpus, gpus_per_node, *seed));
  }
  if (kind == "file" && !detail.empty())
    return from_file(std::string(detail), gpus).map([](Gpus&& order) { return Placement(std::move(order)); });
  return model::wrong_input(std::string(placement_key), fmt::format("unknown placement '{}'", rule),
                            model::did_you_mean_before(kind, {"contiguous", "striped", "random", "file"},
                                                       "use contiguous, striped, random:SEED or file:PATH"));
}

model::Result<Placement> placement_of(const model::Plan& plan, std::int64_t gpus_per_node) {
  namespace fs = std::filesystem;
  constexpr std::string_view file = "file:";
  std::string rule = plan.cluster.placement.value_or("contiguous");
  const bool relative = rule.starts_with(file) && fs::path(rule.substr(file.size())).is_relative();
  if (relative) rule = std::string(file) + (fs::path(plan.file).parent_path() / rule.substr(file.size())).string();
  auto placement = Placement::make(rule, plan.cluster.gpus, gpus_per_node);
  if (placement || !placement.error().file.empty()) return placement;
  const model::Error& error = placement.error();
  return tl::unexpected(model::plan_error(plan, error.kind, error.key, error.message, error.hint));
}

model::Result<void> check_domain(const FabricShape& shape, const model::Plan& plan) {
  const std::optional<std::int64_t> stated = plan.cluster.domain_gpus;
  if (!stated) return {};
  const auto refuse = [&](std::string message, std::string hint) -> model::Result<void> {
    return tl::unexpected(
        model::plan_error(plan, model::ErrorKind::input, "cluster.domain_gpus", std::move(message), std::move(hint)));
  };
  const std::int64_t node = shape.gpus_per_node;
  if (const auto nodes = nodes_of(shape, *stated); !nodes)
    return refuse(fmt::format("{} of the {} GPUs of a domain cannot be used: {}", *stated, node, nodes.error().message),
                  usable_numbers(shape, *stated));
  if (!shape.factors.empty() && *stated < std::min(node, plan.cluster.gpus))
    return refuse("the links that are changed are named for whole domains",
                  fmt::format("use {}, or change no links", node));
  return {};
}

FabricShape used_nodes(const FabricShape& shape, const model::Plan& plan) {
  const std::optional<std::int64_t> stated = plan.cluster.domain_gpus;
  if (plan.cluster.gpus <= stated.value_or(shape.gpus_per_node)) return shape;
  if (stated) {
    auto nodes = nodes_of(shape, *stated);
    assert(nodes && "check_domain() refuses other numbers");
    return *std::move(nodes);
  }
  return plan.cluster.placement || !shape.factors.empty() ? shape : nodes_of_whole_groups(shape, plan);
}

std::int64_t expert_node_gpus(const FabricShape& shape, const model::Plan& plan) {
  const std::int64_t node = used_nodes(shape, plan).gpus_per_node, span = expert_span(plan);
  if (span > node || node % span == 0 || plan.cluster.gpus <= node) return node;
  std::int64_t least = span;
  for (std::int64_t first = 0; first < plan.cluster.gpus; first += span) {
    const std::int64_t before_the_end = std::min(span, node - first % node);
    least = std::min(least, std::max(before_the_end, span - before_the_end));
  }
  while (span % least != 0) --least;
  return least;
}

std::vector<std::string> placement_warnings(const FabricShape& shape, const model::Plan& plan) {
  const std::int64_t gpus = plan.cluster.gpus, node = shape.gpus_per_node;
  const std::int64_t used = used_nodes(shape, plan).gpus_per_node, expert = expert_span(plan);
  std::vector<std::string> sentences;
  if (used < node) {
    const std::int64_t nodes = model::ceil_div(gpus, used), idle = nodes * node - gpus;
    sentences.push_back(fmt::format(
        "{} of the {} GPUs of a node are used, {}: the {} nodes have {} more GPUs, {:.1f} % of those that are used and "
        "priced (cluster.placement = \"contiguous\" fills the nodes)",
        used, node,
        plan.cluster.domain_gpus ? "as cluster.domain_gpus states"
                                 : "so that no node holds uneven parts of tensor and expert groups",
        nodes, idle, 100 * static_cast<double>(idle) / static_cast<double>(gpus)));
  }
  const std::pair<std::string_view, std::int64_t> groups[] = {{"tensor", plan.parallelism.tensor}, {"expert", expert}};
  for (const auto& [name, span] : groups)
    if (gpus > node && span > 1 && span <= node && used % span != 0 &&
        !plan.cluster.placement.value_or("").starts_with("file:"))
      sentences.push_back(fmt::format(
          "{} groups of {} GPUs do not divide the {} of a node: some cross to another node, at {:.0f} GB/s instead of "
          "{:.0f} a GPU",
          name, span, used, shape.nic_bandwidth * static_cast<double>(shape.nics) / static_cast<double>(node) / 1e9,
          shape.gpu_bandwidth / 1e9));
  return sentences;
}

}  // namespace plumbline::topologies
