#include "topologies/simgrid_platform.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

namespace plumbline::topologies {
namespace {

// SimGrid takes the route with the fewest links. Padding links without effect make routes over a node longer than those
// over the spines of one network, and routes over a NIC longer than those inside a node, as in Fabric::route.
constexpr int node_weight = 2;
constexpr int mesh_weight = 2 * node_weight;
constexpr int nic_weight = 3;
constexpr int switch_weight = 1;

// Returns the text without the "--" that a comment of XML must not contain.
std::string comment_text(const std::string& text) {
  std::string out;
  for (const char letter : text)
    out += letter == '-' && out.ends_with('-') ? std::string(" -") : std::string(1, letter);
  return out;
}

class Writer {
 public:
  Writer(const Topology& topology, const Fabric& fabric) : topology_(topology), fabric_(fabric) {}

  std::string write() {
    add("<?xml version=\"1.0\"?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n");
    add("<!-- {}: {} GPUs on {} nodes. Meant for network/model:CM02 with network/crosstraffic:0. -->\n",
        comment_text(topology_.cluster.name), fabric_.gpus(), fabric_.nodes());
    add("<platform version=\"4.1\">\n<zone id=\"cluster\" routing=\"Dijkstra\">\n");
    add_hosts_and_routers();
    add_links();
    routes_in_nodes();
    if (fabric_.nodes() > 1) routes_between_nodes();
    add("</zone>\n</platform>\n");
    return std::move(out_);
  }

 private:
  template <class... Values>
  void add(fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Values>(values)...);
  }

  bool mesh() const { return fabric_.shape().interconnect == Interconnect::mesh; }
  std::int64_t spines_per_pod() const { return fabric_.spines() / fabric_.pods(); }

  void add_hosts_and_routers() {
    for (std::int64_t gpu = 0; gpu < fabric_.gpus(); ++gpu)
      add("  <host id=\"gpu{}\" speed=\"{}f\"/>\n", gpu, topology_.cluster.device.bf16_peak.value());
    for (std::int64_t node = 0; node < fabric_.nodes() && !mesh(); ++node) add("  <router id=\"node{}\"/>\n", node);
    for (std::int64_t leaf = 0; leaf < fabric_.leaves() && fabric_.nodes() > 1; ++leaf)
      add("  <router id=\"leaf{}\"/>\n", leaf);
    for (std::int64_t pod = 0; pod < fabric_.pods(); ++pod) add("  <router id=\"spines{}\"/>\n", pod);
    for (std::int64_t plane = 0; plane < fabric_.shape().planes && fabric_.cores() > 0; ++plane)
      add("  <router id=\"cores{}\"/>\n", plane);
  }

  void link(const std::string& name, double bandwidth, double latency) {
    add("  <link id=\"{}\" bandwidth=\"{}Bps\" latency=\"{}s\"/>\n", name, bandwidth, latency);
  }

  void trunk(const std::string& name, std::int64_t count, const Link& one) {
    link(name + ".up", static_cast<double>(count) * one.bandwidth, one.latency);
    link(name + ".down", static_cast<double>(count) * one.bandwidth, one.latency);
  }

  void add_links() {
    for (int i = 1; i < mesh_weight; ++i)
      add("  <link id=\"pad{}\" bandwidth=\"1e18Bps\" latency=\"0s\" sharing_policy=\"FATPIPE\"/>\n", i);
    const Link* spine = nullptr;
    for (const Link& one : fabric_.links()) {
      if (one.kind < LinkKind::leaf_up) link(one.name, one.bandwidth, one.latency);
      if (one.kind >= LinkKind::leaf_up) spine = &one;
    }
    if (spine == nullptr) return;
    for (std::int64_t leaf = 0; leaf < fabric_.leaves(); ++leaf)
      trunk(fmt::format("leaf{}", leaf), spines_per_pod(), *spine);
    if (fabric_.cores() == 0) return;
    for (std::int64_t pod = 0; pod < fabric_.pods(); ++pod)
      trunk(fmt::format("spines{}", pod), fabric_.cores() / fabric_.shape().planes, *spine);
  }

  void route(const std::string& from, const std::string& to, const std::string& name, int weight) {
    add("  <route src=\"{}\" dst=\"{}\" symmetrical=\"NO\"><link_ctn id=\"{}\"/>", from, to, name);
    for (int i = 1; i < weight; ++i) add("<link_ctn id=\"pad{}\"/>", i);
    add("</route>\n");
  }

  void routes_in_nodes() {
    const std::int64_t per_node = fabric_.gpus_per_node();
    std::vector<LinkId> links;
    for (std::int64_t gpu = 0; gpu < fabric_.gpus(); ++gpu) {
      const std::int64_t first = fabric_.node(gpu) * per_node;
      const std::string name = fmt::format("gpu{}", gpu);
      if (!mesh()) {
        const std::string router = fmt::format("node{}", fabric_.node(gpu));
        const std::string ports = fmt::format("node{}.gpu{}", fabric_.node(gpu), gpu - first);
        route(name, router, ports + ".up", node_weight);
        route(router, name, ports + ".down", node_weight);
        continue;
      }
      for (std::int64_t peer = first; peer < std::min(first + per_node, fabric_.gpus()); ++peer) {
        if (peer == gpu) continue;
        links.clear();
        fabric_.route(gpu, peer, links);
        route(name, fmt::format("gpu{}", peer), fabric_.link(links.front()).name, mesh_weight);
      }
    }
  }

  void both_routes(const std::string& low, const std::string& high) {
    route(low, high, low + ".up", switch_weight);
    route(high, low, low + ".down", switch_weight);
  }

  void routes_between_nodes() {
    for (std::int64_t gpu = 0; gpu < fabric_.gpus(); ++gpu) {
      const std::string name = fmt::format("gpu{}", gpu);
      const std::string leaf = fmt::format("leaf{}", fabric_.leaf(gpu));
      route(name, leaf, fabric_.link(fabric_.nic_up(gpu)).name, nic_weight);
      route(leaf, name, fabric_.link(fabric_.nic_down(gpu)).name, nic_weight);
    }
    for (std::int64_t leaf = 0; leaf < fabric_.leaves() && fabric_.spines() > 0; ++leaf)
      both_routes(fmt::format("leaf{}", leaf), fmt::format("spines{}", fabric_.pod_of_leaf(leaf)));
    for (std::int64_t pod = 0; pod < fabric_.pods() && fabric_.cores() > 0; ++pod)
      both_routes(fmt::format("spines{}", pod), fmt::format("cores{}", pod * fabric_.shape().planes / fabric_.pods()));
  }

  const Topology& topology_;
  const Fabric& fabric_;
  std::string out_;
};

}  // namespace

std::string simgrid_platform(const Topology& topology, const Fabric& fabric) {
  return Writer(topology, fabric).write();
}

}  // namespace plumbline::topologies
