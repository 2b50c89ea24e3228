#include "model/cost/collective_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <string>

namespace plumbline::model {

namespace {

constexpr std::array collective_names = {"all_reduce", "reduce_scatter", "all_gather",
                                         "broadcast",  "all_to_all",     "send_recv"};
constexpr std::array protocol_names = {"ll", "ll128", "simple"};
constexpr std::array all_protocols = {CollectiveProtocol::ll, CollectiveProtocol::ll128, CollectiveProtocol::simple};

std::size_t index(CollectiveProtocol protocol) { return static_cast<std::size_t>(protocol); }

// Returns the bytes that a node's NICs send in an all-reduce over several nodes, per byte of the buffer.
double between_nodes(const CollectiveGroup& group) {
  const auto nodes = static_cast<double>(group.nodes());
  return 2 * (nodes - 1) / nodes;
}

double per_node(const CollectiveGroup& group) { return static_cast<double>(group.ranks_per_node); }

// Returns the seconds per byte in which a rank moves its own piece from its input to its output.
double copy_of(Collective collective, const CollectiveGroup& group, const CollectiveLine& line) {
  if (line.copy_bandwidth <= 0 || collective == Collective::broadcast || collective == Collective::send_recv) return 0;
  return 1 / (static_cast<double>(group.ranks) * line.copy_bandwidth);
}

// Consecutive ranks on a node use NVLink; the rings that cross nodes each use another NIC of the node.
CollectivePath ring_path(CollectiveProtocol protocol, Collective collective, const CollectiveGroup& group,
                         const CollectiveLine& line) {
  const double passes = collective == Collective::all_reduce ? 2 : 1;
  const double between = passes * static_cast<double>(group.nodes() - 1);
  const double all = passes * static_cast<double>(group.ranks - 1);
  const double sent = bus_factor(collective, group.ranks);
  double rate = line.limit;
  if (group.ranks_per_node > 1) rate = std::min(rate, line.nvlink_rate);
  if (group.nodes() > 1) rate = std::min(rate, per_node(group) * line.nic_rate);
  return {CollectiveAlgorithm::ring,
          protocol,
          line.base + (all - between) * line.nvlink_hop + between * line.network_hop,
          sent / rate + copy_of(collective, group, line),
          group.nodes() > 1 ? sent / per_node(group) : 0,
          group.ranks_per_node > 1 ? sent : 0};
}

// A chain inside each node and two complementary binary trees between the nodes, pipelined. Each GPU sends the buffer
// up and down; the NICs of a node together send the minimum of an all-reduce between nodes.
CollectivePath tree_path(CollectiveProtocol protocol, const CollectiveGroup& group, const CollectiveLine& line) {
  double per_byte = 2 / line.limit;
  if (group.ranks_per_node > 1) per_byte = std::max(per_byte, 2 / line.nvlink_rate);
  if (group.nodes() > 1) per_byte = std::max(per_byte, between_nodes(group) / (per_node(group) * line.nic_rate));
  return {CollectiveAlgorithm::tree,
          protocol,
          line.base + 2 * (per_node(group) - 1) * line.nvlink_hop +
              2 * std::log2(static_cast<double>(group.nodes())) * line.network_hop,
          per_byte,
          between_nodes(group) / per_node(group),
          group.ranks_per_node > 1 ? 2.0 : 0.0};
}

// The switch sums the buffers of all GPUs of the node; between nodes the sums go up and down a tree. Each GPU fetches
// the sums of its share and hands them out again, so it sends the whole buffer and its share once more (NCCL
// src/graph/search.cc, ncclTopoSearchTryNvls). NCCL's and the measured rates are those of eight GPUs; more are not
// faster: 937 GB/s on the bus of a rack of GB300, where 1 + 1/g would give a tenth more.
CollectivePath nvls_path(CollectiveProtocol protocol, const CollectiveGroup& group, const CollectiveLine& line) {
  constexpr double of_eight = 1 + 1.0 / 8;
  const double sent = 1 + 1 / per_node(group);
  double per_byte = std::max(1.0, sent / of_eight) / line.nvlink_rate;
  if (group.nodes() > 1) per_byte = std::max(per_byte, between_nodes(group) / (per_node(group) * line.nic_rate));
  return {CollectiveAlgorithm::nvls,
          protocol,
          line.base + line.nvlink_hop + 2 * std::log2(static_cast<double>(group.nodes())) * line.network_hop,
          per_byte,
          between_nodes(group) / per_node(group),
          sent};
}

// Binomial trees of every rank at once, aggregated while messages are small: as many steps over the network as the
// logarithm of the ranks, and work for every rank.
CollectivePath pat_path(CollectiveProtocol protocol, Collective collective, const CollectiveGroup& group,
                        const CollectiveLine& line) {
  const auto ranks = static_cast<double>(group.ranks);
  return {CollectiveAlgorithm::pat, protocol, line.base + ranks * line.nvlink_hop + std::log2(ranks) * line.network_hop,
          bus_factor(collective, group.ranks) / line.nic_rate, bus_factor(collective, group.ranks)};
}

// All ranks read the memory of all others: whole buffers, or a piece of each, whose sums they then gather.
CollectivePath custom_path(CollectiveAlgorithm algorithm, CollectiveProtocol protocol, const CollectiveGroup& group,
                           const CollectiveLine& line) {
  const auto others = static_cast<double>(group.ranks - 1);
  const double read =
      algorithm == CollectiveAlgorithm::one_shot ? others : bus_factor(Collective::all_reduce, group.ranks);
  return {algorithm, protocol, line.base + others * line.nvlink_hop, read / line.nvlink_rate, 0, read};
}

// Messages between pairs of ranks. The part of an all-to-all that stays on the node uses NVLink, the rest the GPU's own
// NIC. A single message between nodes has one NIC.
CollectivePath direct_path(CollectiveProtocol protocol, Collective collective, const CollectiveGroup& group,
                           const CollectiveLine& line) {
  const bool across = group.nodes() > 1;
  const double ranks = static_cast<double>(group.ranks);
  const bool single = collective == Collective::send_recv;
  const double on_network = !across ? 0 : single ? 1 : (ranks - per_node(group)) / ranks;
  const double on_nvlink = single ? (across ? 0 : 1) : (per_node(group) - 1) / ranks;
  const double hops = single ? (across ? 0 : 1) : ranks - 1;
  return {CollectiveAlgorithm::direct,
          protocol,
          line.base + hops * line.nvlink_hop + (across ? line.network_hop : 0),
          std::max(on_nvlink / line.nvlink_rate, on_network / std::min(line.nic_rate, line.limit)) +
              copy_of(collective, group, line),
          on_network,
          on_nvlink};
}

}  // namespace

std::string_view to_string(Collective collective) { return collective_names[static_cast<std::size_t>(collective)]; }
std::string_view to_string(CollectiveProtocol protocol) { return protocol_names[index(protocol)]; }

Result<Collective> parse_collective(std::string_view text) {
  for (std::size_t i = 0; i < collective_names.size(); ++i)
    if (text == collective_names[i]) return static_cast<Collective>(i);
  return wrong_input("", fmt::format("unknown collective '{}'", text),
                     known_names(text, {collective_names.begin(), collective_names.end()}));
}

CollectiveGroup CollectiveGroup::strided(std::int64_t ranks, std::int64_t stride, std::int64_t gpus_per_node) {
  return {ranks, std::min(ranks, std::max<std::int64_t>(1, gpus_per_node / stride))};
}

double bus_factor(Collective collective, std::int64_t ranks) {
  const double others = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  switch (collective) {
    case Collective::all_reduce:
      return 2 * others;
    case Collective::broadcast:
    case Collective::send_recv:
      return 1;
    default:
      return others;
  }
}

CollectivePath collective_path(CollectiveAlgorithm algorithm, CollectiveProtocol protocol, Collective collective,
                               const CollectiveGroup& group, const CollectiveLine& line) {
  switch (algorithm) {
    case CollectiveAlgorithm::ring:
      return ring_path(protocol, collective, group, line);
    case CollectiveAlgorithm::tree:
      return tree_path(protocol, group, line);
    case CollectiveAlgorithm::nvls:
      return nvls_path(protocol, group, line);
    case CollectiveAlgorithm::pat:
      return pat_path(protocol, collective, group, line);
    case CollectiveAlgorithm::one_shot:
    case CollectiveAlgorithm::two_shot:
      return custom_path(algorithm, protocol, group, line);
    default:
      return direct_path(protocol, collective, group, line);
  }
}

std::optional<CollectiveCost::Custom> CollectiveCost::read_custom(ConstantReader& reader, const Profile& profile,
                                                                  double nvlink_scale) {
  constexpr std::string_view first = "collective.custom.", last = ".available";
  for (const Parameter& parameter : profile.parameters()) {
    if (!parameter.name.starts_with(first) || !parameter.name.ends_with(last) || parameter.value <= 0) continue;
    const std::string engine = parameter.name.substr(0, parameter.name.size() - last.size());
    if (!profile.find(engine + ".one_shot.rate")) continue;
    const auto line = [&](const char* shot) {
      const auto value = [&](const char* name) {
        return reader.require(fmt::format("{}.{}.{}", engine, shot, name)).value;
      };
      CollectiveLine found;
      found.base = value("base");
      found.nvlink_hop = value("rank_time");
      found.nvlink_rate = value("rate") * nvlink_scale;
      return found;
    };
    return Custom{reader.require(engine + ".most_ranks").value, reader.require(engine + ".most_bytes").value,
                  line("one_shot"), line("two_shot")};
  }
  return std::nullopt;
}

Result<CollectiveCost> CollectiveCost::make(const Profile& profile, const ClusterShape& cluster) {
  ConstantReader reader(profile);
  const auto pace = [&](const std::string& prefix) {
    return Pace{reader.require(prefix + ".base"), reader.require(prefix + ".nvlink_hop"),
                reader.require(prefix + ".network_hop"), reader.require(prefix + ".efficiency")};
  };
  CollectiveCost cost;
  for (const CollectiveProtocol protocol : all_protocols) {
    cost.ring_[index(protocol)] = pace(fmt::format("collective.ring.{}", to_string(protocol)));
    cost.tree_[index(protocol)] = pace(fmt::format("collective.tree.{}", to_string(protocol)));
    const std::string own = fmt::format("collective.direct.{}", to_string(protocol));
    const std::optional<Constant> base = reader.find(own + ".base");
    if (!base) continue;
    const Pace& ring = cost.ring_[index(protocol)];
    cost.direct_[index(protocol)] = {*base, reader.find(own + ".nvlink_hop").value_or(ring.nvlink_step),
                                     reader.find(own + ".network_hop").value_or(ring.network_step),
                                     reader.find(own + ".efficiency").value_or(ring.efficiency)};
  }
  cost.copy_bandwidth_ = reader.value("collective.copy_bandwidth");
  cost.nvls_ = pace("collective.nvls.simple");
  if (const auto base = reader.find("collective.pat.simple.base"))
    cost.pat_ = {*base, reader.require("collective.pat.simple.rank_time"),
                 reader.require("collective.pat.simple.network_hop"),
                 reader.require("collective.pat.simple.efficiency")};
  cost.has_nvls_ = reader.require("collective.nvls.available").value > 0;
  cost.launch_ = reader.require("collective.launch");
  cost.nvlink_latency_scale_ = reader.require("collective.nvlink_latency_scale");
  cost.network_latency_scale_ = reader.require("collective.network_latency_scale");
  cost.channels_ = reader.require("collective.channels");
  cost.ring_channel_ = reader.require("collective.ring.channel_bandwidth");
  cost.tree_channel_ = reader.require("collective.tree.channel_bandwidth");
  cost.ll_bandwidth_ = {reader.require("collective.ll_bandwidth.one_node"),
                        reader.require("collective.ll_bandwidth.two_nodes"),
                        reader.require("collective.ll_bandwidth.more_nodes")};
  cost.nic_rate_ = reader.require("network.nic_rate");
  cost.nvlink_rate_ = reader.require("network.nvlink_rate");
  const Constant nic_line = reader.require("network.nic_line_rate");
  const Constant nvlink_line = reader.require("network.nvlink_line_rate");
  const double nvlink_scale = cluster.intra_node_bandwidth.value() / nvlink_line.value;
  cost.custom_ = read_custom(reader, profile, nvlink_scale);
  if (reader.error()) return tl::unexpected(*reader.error());
  // A profile's rates hold for its line rates; another line rate scales them.
  cost.nic_rate_.value *= cluster.inter_node_bandwidth().value() / nic_line.value * cluster.network.collective_rate;
  cost.network_latency_scale_.value *= cluster.network.collective_latency;
  cost.nvlink_rate_.value *= nvlink_scale;
  return cost;
}

// Returns the highest bus bandwidth of the protocol itself.
double CollectiveCost::cap(CollectiveProtocol protocol, const CollectiveGroup& group) const {
  if (protocol != CollectiveProtocol::ll) return std::numeric_limits<double>::infinity();
  return ll_bandwidth_[static_cast<std::size_t>(std::min<std::int64_t>(group.nodes(), 3) - 1)].value;
}

CollectiveLine CollectiveCost::line(const Pace& pace, double nvlink_rate, double nic_rate) const {
  return {.base = launch_.value + nvlink_latency_scale_.value * pace.base.value,
          .nvlink_hop = nvlink_latency_scale_.value * pace.nvlink_step.value,
          .network_hop = network_latency_scale_.value * pace.network_step.value,
          .nvlink_rate = nvlink_rate,
          .nic_rate = nic_rate};
}

CollectivePath CollectiveCost::on_channels(CollectiveAlgorithm algorithm, Collective collective,
                                           CollectiveProtocol protocol, const CollectiveGroup& group) const {
  const bool tree = algorithm == CollectiveAlgorithm::tree;
  const Pace& pace = (tree ? tree_ : ring_)[index(protocol)];
  const double channel = (tree ? tree_channel_ : ring_channel_).value, usable = pace.efficiency.value;
  CollectiveLine by =
      line(pace, std::min(nvlink_rate_.value, channels_.value * channel) * usable, nic_rate(group) * usable);
  by.limit = cap(protocol, group);
  if (!tree && protocol == CollectiveProtocol::simple) by.copy_bandwidth = copy_bandwidth_;
  return collective_path(algorithm, protocol, collective, group, by);
}

CollectivePath CollectiveCost::nvls(const CollectiveGroup& group) const {
  return collective_path(CollectiveAlgorithm::nvls, CollectiveProtocol::simple, Collective::all_reduce, group,
                         line(nvls_, nvlink_rate_.value * nvls_.efficiency.value, nic_rate(group)));
}

// The time for every rank is not one of links.
CollectivePath CollectiveCost::pat(Collective collective, const CollectiveGroup& group) const {
  CollectiveLine by = line(*pat_, nvlink_rate_.value, nic_rate(group) * pat_->efficiency.value);
  by.nvlink_hop = pat_->nvlink_step.value;
  return collective_path(CollectiveAlgorithm::pat, CollectiveProtocol::simple, collective, group, by);
}

// Without lines of their own, messages have those of rings and start all at once: they count as one transfer.
CollectivePath CollectiveCost::direct(Collective collective, CollectiveProtocol protocol,
                                      const CollectiveGroup& group) const {
  const std::optional<Pace>& own = direct_[index(protocol)];
  const Pace& pace = own ? *own : ring_[index(protocol)];
  const double usable = pace.efficiency.value;
  const CollectiveGroup node{group.ranks_per_node, group.ranks_per_node};
  CollectiveLine by =
      line(pace,
           std::min({nvlink_rate_.value * usable, channels_.value * ring_channel_.value * usable, cap(protocol, node)}),
           nic_rate(group) * usable);
  by.limit = cap(protocol, group);
  if (!own) {
    if (group.nodes() == 1) by.base += by.nvlink_hop;
    by.nvlink_hop = 0;
  }
  if (protocol == CollectiveProtocol::simple) by.copy_bandwidth = copy_bandwidth_;
  return collective_path(CollectiveAlgorithm::direct, protocol, collective, group, by);
}

std::vector<CollectivePath> CollectiveCost::paths(Collective collective, const CollectiveGroup& group,
                                                  Bytes bytes) const {
  std::vector<CollectivePath> found;
  if (group.ranks == 1) return found;
  if (collective == Collective::all_to_all || collective == Collective::send_recv) {
    for (const CollectiveProtocol protocol : all_protocols)
      if (protocol != CollectiveProtocol::ll128 || direct_[index(protocol)])
        found.push_back(direct(collective, protocol, group));
    return found;
  }
  for (const CollectiveProtocol protocol : all_protocols) {
    found.push_back(on_channels(CollectiveAlgorithm::ring, collective, protocol, group));
    if (collective == Collective::all_reduce)
      found.push_back(on_channels(CollectiveAlgorithm::tree, collective, protocol, group));
  }
  const bool pieces = collective == Collective::reduce_scatter || collective == Collective::all_gather;
  if (pat_ && pieces && group.ranks_per_node == 1) found.push_back(pat(collective, group));
  // NCCL sets the sums up for three GPUs or more (src/transport/nvls.cc, ncclNvlsInit). Gathers and scatters by
  // multicast are in no measured table faster than rings.
  if (has_nvls_ && collective == Collective::all_reduce && group.ranks_per_node > 2) found.push_back(nvls(group));
  if (custom_ && collective == Collective::all_reduce && group.nodes() == 1 && bytes.value() <= custom_->most_bytes &&
      static_cast<double>(group.ranks) <= custom_->most_ranks)
    for (const auto& [algorithm, by] : {std::pair(CollectiveAlgorithm::one_shot, &custom_->one_shot),
                                        std::pair(CollectiveAlgorithm::two_shot, &custom_->two_shot)})
      found.push_back(collective_path(algorithm, CollectiveProtocol::simple, collective, group, *by));
  return found;
}

CollectivePath CollectiveCost::fastest(Collective collective, const CollectiveGroup& group, Bytes bytes) const {
  const std::vector<CollectivePath> all = paths(collective, group, bytes);
  assert(!all.empty());
  return *std::ranges::min_element(all, {}, [&](const CollectivePath& path) { return path.seconds(bytes); });
}

double CollectiveCost::best(Collective collective, const CollectiveGroup& group, Bytes bytes) const {
  const std::vector<CollectivePath> all = paths(collective, group, bytes);
  if (all.empty()) return 0;
  return bytes.value() * std::ranges::min(all, {}, &CollectivePath::seconds_per_byte).seconds_per_byte;
}

double CollectiveCost::time(Collective collective, const CollectiveGroup& group, Bytes bytes) const {
  return group.ranks == 1 ? 0 : fastest(collective, group, bytes).seconds(bytes);
}

}  // namespace plumbline::model
