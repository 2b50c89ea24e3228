#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "model/economics/ownership.h"
#include "reports/text/inputs/inputs_text.h"
#include "reports/text/step/sections.h"
#include "reports/text/table.h"
#include "topologies/fabric.h"

namespace plumbline::reports {
namespace {

constexpr std::size_t inside = 66;  // columns between the walls of a box
constexpr std::size_t column = 8;   // of one GPU
constexpr std::int64_t most_drawn = 8;

std::string rate(double bytes_per_second) { return fmt::format("{:.4g} GB/s", bytes_per_second / 1e9); }

// Returns the GPUs of a node that are drawn: all, or the first ones and the last; -1 stands for the others.
std::vector<std::int64_t> drawn(std::int64_t gpus) {
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < std::min(gpus, most_drawn); ++i) indices.push_back(i);
  if (gpus > most_drawn) {
    indices[most_drawn - 2] = -1;
    indices[most_drawn - 1] = gpus - 1;
  }
  return indices;
}

std::string nodes_text(std::int64_t nodes) { return fmt::format("{} node{}", grouped(nodes), nodes == 1 ? "" : "s"); }

std::string top_wall(const std::string& title) {
  return fmt::format("  +- {} {:->{}}\n", title, "+", inside - title.size() - 2);
}

std::string wall_line(const std::string& text) { return fmt::format("  |{:<{}}|\n", text, inside); }

template <class Cell>
std::string row(const std::vector<std::int64_t>& indices, Cell&& cell) {
  std::string line = " ";
  for (const std::int64_t index : indices) line += fmt::format("{:^{}}", index < 0 ? "..." : cell(index), column);
  return line;
}

std::string draw_node(const topologies::FabricShape& shape, std::int64_t nodes) {
  const std::vector<std::int64_t> gpus = drawn(shape.gpus_per_node);
  const auto nic_of = [&](std::int64_t gpu) {
    return gpu * std::min(shape.nics, shape.gpus_per_node) / shape.gpus_per_node;
  };
  const auto bars = [&](std::int64_t) { return std::string("|"); };
  const std::string links = shape.interconnect == topologies::Interconnect::mesh
                                ? fmt::format(" mesh: {} to each other GPU ", rate(shape.peer_bandwidth()))
                                : fmt::format(" switch: {} per GPU ", rate(shape.gpu_bandwidth));
  std::string out = top_wall(nodes == 1 ? "node" : fmt::format("node, {} of them", grouped(nodes)));
  out += wall_line(fmt::format(" [{:=^{}}]", links, std::max(gpus.size() * column, links.size() + 4) - 2));
  out += wall_line(row(gpus, bars));
  out += wall_line(row(gpus, [](std::int64_t gpu) { return fmt::format("GPU {}", gpu); }));
  if (shape.layers == 0) return out + top_wall("no fabric");
  const auto first_of_nic = [&](std::int64_t gpu) { return gpu == 0 || nic_of(gpu) != nic_of(gpu - 1); };
  out += wall_line(row(gpus, bars));
  out += wall_line(row(gpus, [&](std::int64_t gpu) {
    return first_of_nic(gpu) ? fmt::format("NIC {}", nic_of(gpu)) : std::string("'");
  }));
  std::string bottom = fmt::format("  +{:-^{}}+\n", "", inside);
  for (std::size_t i = 0; i < gpus.size(); ++i)
    if (gpus[i] >= 0 && first_of_nic(gpus[i])) bottom[3 + 1 + i * column + (column - 1) / 2] = '|';
  const auto under = row(gpus, [&](std::int64_t gpu) {
    return first_of_nic(gpu) ? fmt::format("rail {}", nic_of(gpu) % shape.rails) : std::string();
  });
  const std::string nics =
      shape.nics > shape.gpus_per_node
          ? fmt::format("{} NICs of {} for each GPU", shape.nics / shape.gpus_per_node, rate(shape.nic_bandwidth))
          : fmt::format("{} per NIC", rate(shape.nic_bandwidth));
  const std::string lines = row(gpus, bars);
  return out + bottom + "   " + under.substr(0, under.find_last_not_of(' ') + 1) + "\n   " +
         lines.substr(0, lines.find_last_not_of(' ') + 1) + " " + nics + '\n';
}

std::string draw_fabric(const topologies::Fabric& fabric) {
  const topologies::FabricShape& shape = fabric.shape();
  const topologies::FabricCapacity most = topologies::capacity(shape);
  std::string out =
      top_wall(shape.planes == 1 ? "network" : fmt::format("plane, {} of them, not connected", shape.planes));
  out +=
      wall_line(fmt::format("  leaves  {:>6}   {} ports to NICs, up to {} of one rail",
                            grouped(fabric.leaves() / shape.planes), most.leaf_down, nodes_text(most.nodes_per_leaf)));
  if (fabric.spines() > 0) {
    out +=
        wall_line(fmt::format("     |           {} to each spine of the pod, {}", rate(shape.nic_bandwidth),
                              shape.oversubscription > 1 ? fmt::format("oversubscribed {:g}:1", shape.oversubscription)
                                                         : std::string("non-blocking")));
    out += wall_line(fmt::format("  spines  {:>6}   {} ports; pods: {}", grouped(fabric.spines() / shape.planes),
                                 shape.switch_ports, grouped(fabric.pods() / shape.planes)));
  }
  if (fabric.cores() > 0) {
    out += wall_line(fmt::format("     |           {} to each core above", rate(shape.nic_bandwidth)));
    out += wall_line(
        fmt::format("  cores   {:>6}   {} ports", grouped(fabric.cores() / shape.planes), shape.switch_ports));
  }
  return out + fmt::format("  +{:-^{}}+\n", "", inside);
}

std::string links_table(const topologies::Fabric& fabric) {
  Table table("links | >count | >each | >together");
  for (const topologies::LinkGroup& group : topologies::inventory(fabric)) {
    const double together = static_cast<double>(group.count) * group.bandwidth;
    table.row(to_string(group.kind), grouped(group.count), rate(group.bandwidth),
              fmt::format("{:.4g} TB/s", together / 1e12));
  }
  return table.to_string();
}

// Returns the prices of a GPU-hour and of the fabric of these GPUs.
std::string prices_text(const model::ClusterShape& cluster) {
  std::string out;
  const auto line = [&out](const std::string& text) { out += paragraph(text); };
  const std::string parts = fabric_text(cluster.fabric, model::fabric_price(cluster));
  if (!parts.empty()) line("to buy: " + parts);
  const auto price = [&](const char* option, const model::Known<model::HourlyPrice>& known) {
    if (!known.value) return line(fmt::format("a GPU-hour {}: unknown, {}", option, known.missing));
    const model::HourlyPrice& usd = *known.value;
    const std::string range = usd.low < usd.high ? fmt::format(", {:.2f} to {:.2f}", usd.low, usd.high) : "";
    line(fmt::format("a GPU-hour {}: {:.2f} USD{} ({})", option, usd.value, range, usd.kind));
  };
  price("rented", model::rent_price({}, cluster));
  price("owned", model::purchase_price({}, cluster));
  return out;
}

}  // namespace

std::string topology_drawing(const topologies::Topology& topology, const topologies::Fabric& fabric) {
  const topologies::FabricShape& shape = fabric.shape();
  std::string out;
  out += wrapped(fmt::format("{}: {}", topology.cluster.name, topology.description));
  out += fmt::format("{} GPUs on {}; the wiring connects at most {}\n\n", grouped(fabric.gpus()),
                     nodes_text(fabric.nodes()), grouped(topologies::capacity(shape).gpus));
  out += draw_node(shape, fabric.nodes());
  if (fabric.nodes() > 1) out += draw_fabric(fabric);
  out += '\n' + links_table(fabric);
  out += fmt::format("\n  from one half to the other, per direction: {:.4g} TB/s\n",
                     topologies::bisection_bandwidth(fabric) / 1e12);
  return out + prices_text(topology.cluster);
}

}  // namespace plumbline::reports
