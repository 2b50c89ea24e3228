#include "topologies/formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <pugixml.hpp>
#include <ranges>
#include <string_view>
#include <utility>

#include "model/base/text_file.h"

namespace plumbline::topologies {
namespace {

using model::Error;
using model::ErrorKind;

struct DumpedGpu {
  int line = 0;
  std::string architecture;          // "sm90", "gfx942"
  std::string bus, pci_device;       // "0000:1b:00.0", "0x2330"
  double pci_bandwidth = 0;          // B/s per direction; 0 when the dump has none
  std::map<std::string, int> peers;  // links by the bus id of their other end
  int links_to_switches = 0;         // those with a switch at the other end
  bool links_are_xgmi = false;       // AMD's links instead of NVLink
};

struct DumpedNic {
  std::string name;
  double speed_gbps = 0;
};

struct NcclDump {
  std::vector<DumpedGpu> gpus;
  std::vector<DumpedNic> nics;
  std::map<std::string, int> unknown;  // unknown elements by name, and the line of the first
};

constexpr std::string_view nv_switch_class = "0x068000";
// NCCL nests a device below its bridges, those below their processor and that below the system.
constexpr int deepest = 64;
// Containers, and elements without data on links between GPUs or NICs.
constexpr std::array passive = {"system", "cpu", "pci", "nic", "c2c", "pcilink", "gin"};

// Reads the elements of a dump; the first error ends the reading.
class Reader {
 public:
  Reader(const std::string& path, const std::string& text) : path_(path), text_(text) {}

  void read(const pugi::xml_node& node, int depth = 1) {
    if (depth > deepest) return fail(node, node.name(), fmt::format("nested deeper than {} levels", deepest));
    if (error_ || node.type() != pugi::node_element) return;
    const std::string_view name = node.name();
    if (name == "gpu") {
      read_gpu(node);
    } else if (name == "net") {
      read_net(node);
    } else if (std::ranges::find(passive, name) == passive.end()) {
      dump_.unknown.emplace(name, line(node));
      return;
    }
    for (const pugi::xml_node& child : node.children())
      if (name != "gpu") read(child, depth + 1);
  }

  model::Result<NcclDump> finish() {
    if (error_) return tl::unexpected(*error_);
    return std::move(dump_);
  }

 private:
  int line(const pugi::xml_node& node) const {
    return model::line_of_offset(text_, static_cast<std::size_t>(node.offset_debug()));
  }

  void fail(const pugi::xml_node& node, std::string key, std::string message) {
    if (error_) return;
    error_ = Error{ErrorKind::input, std::move(message), path_,
                   line(node),       std::move(key),     "is it a file that NCCL_TOPO_DUMP_FILE wrote?"};
  }

  // Returns an attribute, which must be a number above 0.
  double number(const pugi::xml_node& node, const char* attribute) {
    const double value = node.attribute(attribute).as_double(0);
    if (value > 0) return value;
    fail(node, fmt::format("{}.{}", node.name(), attribute),
         fmt::format("'{}' is not a number above 0", node.attribute(attribute).value()));
    return 1;
  }

  void read_gpu(const pugi::xml_node& node) {
    const pugi::xml_node pci = node.parent();
    DumpedGpu gpu;
    gpu.line = line(node);
    gpu.bus = pci.attribute("busid").value();
    gpu.pci_device = pci.attribute("device").value();
    // link_speed is "32.0 GT/s PCIe" per direction and unit of link_width; a transfer moves one bit.
    gpu.pci_bandwidth =
        std::strtod(pci.attribute("link_speed").value(), nullptr) * 1e9 / 8 * pci.attribute("link_width").as_double(0);
    // "942", "gfx942" or "gfx942:sramecc+:xnack-", by the version of RCCL.
    std::string_view gcn = node.attribute("gcn").value();
    gcn = gcn.substr(0, gcn.find(':'));
    if (gcn.starts_with("gfx")) gcn.remove_prefix(3);
    gpu.architecture = gcn.empty() ? fmt::format("sm{:.0f}", number(node, "sm")) : fmt::format("gfx{}", gcn);
    for (const pugi::xml_node& child : node.children()) {
      const std::string_view name = child.name();
      if (name == "nvlink" || name == "xgmi") {
        add_links(gpu, child);
      } else if (child.type() == pugi::node_element && name != "c2c") {
        dump_.unknown.emplace(name, line(child));
      }
    }
    dump_.gpus.push_back(std::move(gpu));
  }

  void add_links(DumpedGpu& gpu, const pugi::xml_node& node) {
    const int count = static_cast<int>(number(node, "count"));
    const std::string target = node.attribute("target").value();
    if (target.empty()) fail(node, fmt::format("{}.target", node.name()), "a link without its other end");
    gpu.peers[target] += count;
    gpu.links_are_xgmi = std::string_view(node.name()) == "xgmi";
    if (node.attribute("tclass").value() == nv_switch_class) gpu.links_to_switches += count;
  }

  void read_net(const pugi::xml_node& node) {
    DumpedNic nic{node.attribute("name").value(), number(node, "speed") / 1e3};  // in Mb/s in the file
    if (std::ranges::find(dump_.nics, nic.name, &DumpedNic::name) == dump_.nics.end())
      dump_.nics.push_back(std::move(nic));
  }

  const std::string& path_;
  const std::string& text_;
  NcclDump dump_;
  std::optional<Error> error_;
};

model::Result<NcclDump> read_nccl_dump(const std::string& path) {
  const auto text = TRY(model::read_text_file(path));
  pugi::xml_document document;
  const pugi::xml_parse_result parsed = document.load_buffer(text.data(), text.size());
  if (!parsed)
    return model::wrong_input_at(path, model::line_of_offset(text, static_cast<std::size_t>(parsed.offset)), "",
                                 fmt::format("broken XML: {}", parsed.description()));
  const pugi::xml_node system = document.child("system");
  if (!system)
    return model::wrong_input_at(path, 0, "", "has no element 'system'",
                                 "is it a file that NCCL_TOPO_DUMP_FILE wrote?");
  Reader reader(path, text);
  reader.read(system);
  return reader.finish();
}

// The line rate of one link, GB/s per direction.
struct LinkRate {
  std::string_view architecture;
  double rate;
  std::string_view source;
};
constexpr std::array link_rates = {
    LinkRate{"sm60", 20, "NVLink 1"},
    LinkRate{"sm70", 25, "NVLink 2"},
    LinkRate{"sm80", 25, "NVLink 3"},
    LinkRate{"sm90", 25, "NVLink 4"},
    LinkRate{"sm100", 50, "NVLink 5"},
    LinkRate{"sm103", 50, "NVLink 5"},
    LinkRate{"gfx942", 64, "Infinity Fabric of the MI300"},
    LinkRate{"gfx950", 76.5, "Infinity Fabric of the MI355X"},
};

// The device and profile of a GPU, by its PCI device or else by its architecture.
struct KnownGpu {
  std::string_view mark, device, profile;
};
constexpr std::array known_gpus = {
    KnownGpu{"0x20b0", "a100-sxm-40gb", "a100-40gb"},
    KnownGpu{"0x20b2", "a100-sxm", "a100"},
    KnownGpu{"0x20f3", "a800-sxm", "a100"},
    KnownGpu{"0x2324", "h800-sxm", "h800"},
    KnownGpu{"0x2329", "h20-sxm", "h20"},
    KnownGpu{"0x2330", "h100-sxm", "h100"},
    KnownGpu{"0x2335", "h200-sxm", "h200"},
    KnownGpu{"0x2901", "b200-sxm", "b200"},
    KnownGpu{"0x2941", "gb200", "gb200"},
    KnownGpu{"0x3182", "b300-sxm", "b300"},
    KnownGpu{"0x31c2", "gb300", "gb300"},
    // The second one of each is that of virtual machines (ROCm/k8s-device-plugin, DefaultVFDeviceIDs).
    KnownGpu{"0x74a1", "mi300x", "mi300x"},
    KnownGpu{"0x74b5", "mi300x", "mi300x"},
    KnownGpu{"0x74a5", "mi325x", "mi325x"},
    KnownGpu{"0x74b9", "mi325x", "mi325x"},
    KnownGpu{"0x75a0", "mi350x", "mi350x"},
    KnownGpu{"0x75b0", "mi350x", "mi350x"},
    KnownGpu{"0x75a3", "mi355x", "mi355x"},
    KnownGpu{"0x75b3", "mi355x", "mi355x"},
    KnownGpu{"sm70", "v100-sxm", "v100-datasheet"},
    KnownGpu{"sm80", "a100-sxm", "a100"},
    KnownGpu{"sm90", "h100-sxm", "h100"},
    KnownGpu{"sm100", "b200-sxm", "b200"},
    KnownGpu{"sm103", "b300-sxm", "b300"},
    KnownGpu{"gfx942", "mi300x", "mi300x"},
    KnownGpu{"gfx950", "mi355x", "mi355x"},
};

Error fault(const std::string& path, int line, std::string message, std::string hint) {
  return Error{ErrorKind::input, std::move(message), path, line, "", std::move(hint)};
}

std::string entry(std::string_view key, double value, std::string_view unit, std::string_view kind,
                  std::string_view source) {
  return fmt::format("{} = {{ value = {:g}, unit = \"{}\", kind = \"{}\", source = \"{}\" }}\n", key, value, unit, kind,
                     source);
}

class Importer {
 public:
  Importer(const std::string& path, const NcclDump& dump) : path_(path), dump_(dump) {}

  model::Result<ImportedTopology> run() {
    if (dump_.gpus.empty()) return tl::unexpected(fault(path_, 0, "has no GPU", ""));
    write_head();
    if (auto error = write_node_links()) return tl::unexpected(*error);
    write_nics();
    write_rest();
    for (const auto& [name, line] : dump_.unknown)
      result_.notes.push_back(fmt::format("unknown element '{}', first on line {}: left out", name, line));
    return std::move(result_);
  }

 private:
  const DumpedGpu& first() const { return dump_.gpus.front(); }

  const KnownGpu& known_gpu() {
    auto found = std::ranges::find(known_gpus, first().pci_device, &KnownGpu::mark);
    if (found != known_gpus.end()) return *found;
    found = std::ranges::find(known_gpus, first().architecture, &KnownGpu::mark);
    if (found == known_gpus.end()) found = std::ranges::find(known_gpus, "sm90", &KnownGpu::mark);
    result_.notes.push_back(
        fmt::format("PCI device '{}' of {} is not known: {} is assumed, check the keys device and "
                    "default_profile",
                    first().pci_device, first().architecture, found->device));
    return *found;
  }

  void write_head() {
    const std::string name = std::filesystem::path(path_).stem().string();
    const KnownGpu& gpu = known_gpu();
    result_.toml = fmt::format(
        "# From a topology dump of NCCL. Entries of kind \"assumed\" are not in the dump: correct them.\n"
        "name = \"{0}\"\ndescription = \"imported from a topology dump of NCCL\"\ndevice = \"{1}\"\n"
        "default_profile = \"{2}\"\n\n[node]\n",
        name, gpu.device, gpu.profile);
  }

  std::optional<Error> check_alike() const {
    for (const DumpedGpu& gpu : dump_.gpus) {
      const bool alike = gpu.architecture == first().architecture &&
                         gpu.links_to_switches == first().links_to_switches &&
                         gpu.peers.empty() == first().peers.empty();
      if (!alike)
        return fault(path_, gpu.line, fmt::format("this GPU differs from the first, on line {}", first().line),
                     "nodes of unlike GPUs cannot be described");
    }
    return std::nullopt;
  }

  // Returns whether every GPU has the same number of links to every other one.
  bool is_mesh() const {
    const int count = first().peers.begin()->second;
    return std::ranges::all_of(dump_.gpus, [&](const DumpedGpu& gpu) {
      return gpu.peers.size() + 1 == dump_.gpus.size() && std::ranges::all_of(dump_.gpus, [&](const DumpedGpu& peer) {
               const auto link = gpu.peers.find(peer.bus);
               return peer.bus == gpu.bus || (link != gpu.peers.end() && link->second == count);
             });
    });
  }

  void write_interconnect(std::string_view interconnect, std::string_view key, double rate, std::string_view kind,
                          std::string_view source) {
    result_.toml += fmt::format("interconnect = \"{}\"\n", interconnect);
    result_.toml += entry("gpus", static_cast<double>(dump_.gpus.size()), "1", "measured", "NCCL topology dump");
    result_.toml += entry(key, rate, "GB/s", kind, source);
  }

  std::optional<Error> write_node_links() {
    if (auto error = check_alike()) return error;
    if (first().peers.empty()) return write_pci_links();
    const auto rate = std::ranges::find(link_rates, first().architecture, &LinkRate::architecture);
    if (rate == link_rates.end())
      return fault(
          path_, first().line, fmt::format("the rate of the links of {} is not known", first().architecture),
          fmt::format("known: {}", fmt::join(link_rates | std::views::transform(&LinkRate::architecture), ", ")));
    if (first().links_to_switches > 0) {
      write_interconnect("switch", "gpu_bandwidth", first().links_to_switches * rate->rate, "datasheet",
                         fmt::format("{} links in the NCCL topology dump, {:g} GB/s each: {}",
                                     first().links_to_switches, rate->rate, rate->source));
      return std::nullopt;
    }
    if (!is_mesh())
      return fault(path_, first().line, "the GPUs are linked neither by switches nor all with each other",
                   "write node.interconnect and its rate by hand, see docs/network.md");
    const int links = first().peers.begin()->second;
    write_interconnect("mesh", "peer_bandwidth", links * rate->rate, "datasheet",
                       fmt::format("{} links to each GPU in the NCCL topology dump, {:g} GB/s each: {}", links,
                                   rate->rate, rate->source));
    return std::nullopt;
  }

  std::optional<Error> write_pci_links() {
    if (first().pci_bandwidth <= 0)
      return fault(path_, first().line, "neither links between GPUs nor the speed of their PCI bus is given",
                   "dump the topology on the machine itself");
    result_.notes.emplace_back("no links between GPUs: they use PCIe, as if each had its own port to a switch");
    write_interconnect("switch", "gpu_bandwidth", first().pci_bandwidth / 1e9, "datasheet",
                       "PCIe lanes times transfer rate in the NCCL topology dump");
    return std::nullopt;
  }

  void write_nics() {
    double fastest = 0;
    for (const DumpedNic& nic : dump_.nics) fastest = std::max(fastest, nic.speed_gbps);
    const auto gpus = static_cast<std::int64_t>(dump_.gpus.size());
    for (const DumpedNic& nic : dump_.nics) {
      if (nic.speed_gbps == fastest)
        ++nics_;
      else
        result_.notes.push_back(
            fmt::format("NIC {} of {:g} Gb/s is slower than others: left out", nic.name, nic.speed_gbps));
    }
    if (nics_ == 0) {
      result_.notes.emplace_back("no NIC: written as a node without a network");
      return;
    }
    std::string_view kind = "measured";
    if (nics_ > gpus && nics_ % gpus != 0) {
      result_.notes.push_back(fmt::format("{} NICs of {:g} Gb/s for {} GPUs: {} are taken, the same number for each",
                                          nics_, fastest, gpus, nics_ / gpus * gpus));
      nics_ = nics_ / gpus * gpus;
      kind = "assumed";
    }
    result_.toml += entry("nics", static_cast<double>(nics_), "1", kind, "NCCL topology dump");
    result_.toml += entry("nic_bandwidth", fastest, "Gb/s", "measured", "NCCL topology dump: speed of the port");
  }

  void write_rest() {
    constexpr std::string_view missing = "not in the dump";
    constexpr std::string_view latency = "not in the dump; arXiv 2505.09343 Table 5, H800 with InfiniBand";
    std::string& out = result_.toml;
    out += "\n[fabric]\n";
    if (nics_ == 0) {
      out += entry("layers", 0, "1", "assumed", "no NIC in the dump");
    } else {
      const std::int64_t rails = std::min(nics_, static_cast<std::int64_t>(dump_.gpus.size()));
      out += "# A dump ends at the NICs: everything here is assumed.\n";
      out += entry("planes", 1, "1", "assumed", missing) +
             entry("rails", static_cast<double>(rails), "1", "assumed", missing);
      out += entry("layers", 2, "1", "assumed", missing) + entry("switch_ports", 64, "1", "assumed", missing);
      out += entry("oversubscription", 1, "1", "assumed", missing);
      result_.notes.emplace_back("the network beyond the NICs is not in the dump: [fabric] is assumed");
    }
    out += "\n[latency]\n" + entry("node", 3.33, "us", "assumed", latency);
    if (nics_ > 0)
      out += entry("nic", 1.175, "us", "assumed", latency) + entry("switch", 0.45, "us", "assumed", latency);
  }

  const std::string& path_;
  const NcclDump& dump_;
  ImportedTopology result_;
  std::int64_t nics_ = 0;
};

}  // namespace

model::Result<ImportedTopology> import_nccl_topology(const std::string& path) {
  return Importer(path, TRY(read_nccl_dump(path))).run();
}

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
