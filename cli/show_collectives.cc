#include "cli/show_collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <tuple>

#include "cli/data.h"
#include "cli/inputs.h"
#include "topologies/topology.h"

namespace plumbline::cli {
namespace {

using model::Collective;
using model::CollectiveCost;
using model::CollectiveGroup;
using model::Error;
using model::ErrorKind;

constexpr std::int64_t element = 4;  // bytes of a float

// How nccl-tests write a time: two digits below 100 us, one below 10 ms.
std::string microseconds(double seconds) {
  const double us = seconds * 1e6;
  return fmt::format("{:7.{}f}", us, us >= 10'000 ? 0 : us >= 100 ? 1 : 2);
}

// What the columns count and size say about `bytes`: collectives that deal out the buffer take a count per rank, a
// whole number of 16 bytes.
struct Counted {
  std::int64_t count = 0, size = 0;
};
Counted counted(Collective collective, std::int64_t bytes, std::int64_t ranks) {
  const std::int64_t all = bytes / element;
  if (collective == Collective::all_reduce || collective == Collective::broadcast ||
      collective == Collective::send_recv)
    return {all, all * element};
  const std::int64_t each = all / ranks / element * element;
  return {each, each * ranks * element};
}

// A constant with its kind: "network.nic_rate 40 GB/s (assumed)".
std::string constant(const model::Profile& profile, std::string_view name) {
  const model::Parameter& p = profile.parameters()[*profile.find(name)];
  return fmt::format("{} {:.4g} {} ({})", name, p.value, p.unit, model::to_string(p.kind));
}

std::string kinds(const model::Profile& profile) {
  using model::Evidence;
  std::string text;
  for (const Evidence kind :
       {Evidence::measured, Evidence::fitted, Evidence::published, Evidence::datasheet, Evidence::assumed}) {
    const auto count = std::ranges::count_if(profile.parameters(), [&](const model::Parameter& p) {
      return p.kind == kind && p.name.starts_with("collective.");
    });
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, model::to_string(kind));
  }
  return text;
}

std::string heading(const model::ClusterShape& cluster, const model::Profile& profile,
                    const CollectivesOptions& options, const CollectiveCost& cost, const CollectiveGroup& group) {
  std::string out = "# predicted by plumbline, not measured\n";
  out += fmt::format("# {}: {} x {}, {} on a node; profile {}\n", cluster.name, group.ranks, cluster.device.name,
                     group.ranks_per_node, profile.name());
  out += fmt::format("# {} minBytes {} maxBytes {} step: 2(factor)\n", model::to_string(options.collective),
                     options.least, options.most);
  out += fmt::format("# constants of collectives: {}\n", kinds(profile));
  for (const char* name : {"network.nvlink_rate", "network.nic_rate"})
    out += fmt::format("# {}\n", constant(profile, name));
  out += fmt::format("# on these links, per GPU and direction: NVLink {:.1f} GB/s, network {:.1f} GB/s\n",
                     cost.nvlink_rate() / 1e9, cost.nic_rate() / 1e9);
  return out +
         "#\n"
         "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
         "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)\n";
}

}  // namespace

model::Result<std::string> collectives_text(const model::ClusterShape& cluster, const model::Profile& profile,
                                            const CollectivesOptions& options) {
  if (cluster.gpus < 2)
    return tl::unexpected(Error{ErrorKind::input, "a collective needs at least two GPUs", "", 0, "--gpus", ""});
  const auto cost = CollectiveCost::make(profile, cluster);
  if (!cost) return tl::unexpected(cost.error());
  const CollectiveGroup group = CollectiveGroup::strided(cluster.gpus, 1, cluster.gpus_per_node);
  const bool sums = options.collective == Collective::all_reduce || options.collective == Collective::reduce_scatter;
  const int root = options.collective == Collective::broadcast ? 0 : -1;
  std::string out = heading(cluster, profile, options, *cost, group);
  double sum = 0;
  int rows = 0;
  for (std::int64_t bytes = options.least; bytes <= options.most; bytes *= 2) {
    const Counted c = counted(options.collective, bytes, group.ranks);
    const double seconds = cost->time(options.collective, group, model::Bytes(static_cast<double>(c.size)));
    const double rate = static_cast<double>(c.size) / seconds / 1e9;
    const double bus = rate * model::bus_factor(options.collective, group.ranks);
    out += fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}  {}  {:6.2f}  {:6.2f}  {:>5}\n", c.size, c.count, "float",
                       sums ? "sum" : "none", root, microseconds(seconds), rate, bus, "N/A");
    sum += bus;
    ++rows;
  }
  return out + fmt::format("# Avg bus bandwidth    : {:.4g}\n#\n", sum / rows);
}

model::Result<std::int64_t> parse_size(const std::string& text, const char* option) {
  constexpr std::int64_t most = std::int64_t{1} << 50;
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
  constexpr std::string_view letters = "KMG";
  const std::size_t letter = rest.size() == 1 ? letters.find(rest[0]) : std::string_view::npos;
  if (status == std::errc() && (rest.empty() || letter != std::string_view::npos) && value > 0 && value <= most) {
    const std::int64_t factor = rest.empty() ? 1 : std::int64_t{1} << (10 * (letter + 1));
    if (value <= most / factor) return value * factor;
  }
  return tl::unexpected(Error{ErrorKind::input, fmt::format("'{}' is no size in bytes", text), "", 0, option,
                              "a whole number above 0, with K, M or G for powers of 1024, up to 1048576G"});
}

const char* CollectivesArguments::misplaced(std::string_view kind) const {
  if (wanted) return kind == "topology" ? nullptr : "--collectives";
  if (!collective.empty()) return "--collective";
  if (!least.empty()) return "--min";
  if (!most.empty()) return "--max";
  return profile.empty() ? nullptr : "--profile";
}

void add_collectives_options(CLI::App& verb, CollectivesArguments& arguments) {
  verb.add_flag("--collectives", arguments.wanted,
                "Of a topology: predicted times of a collective by size, in the columns of nccl-tests");
  verb.add_option("--collective", arguments.collective,
                  "With --collectives: all_reduce (default) | reduce_scatter | all_gather | broadcast | all_to_all | "
                  "send_recv");
  verb.add_option("--min", arguments.least, "With --collectives: smallest size, 8 by default");
  verb.add_option("--max", arguments.most, "With --collectives: largest size, 8G by default");
  verb.add_option("--profile", arguments.profile, "With --collectives: another cost profile than the topology's");
}

model::Result<std::string> show_collectives(const std::string& topology, std::int64_t gpus,
                                            const CollectivesArguments& arguments) {
  CollectivesOptions options;
  if (!arguments.collective.empty()) {
    auto collective = model::parse_collective(arguments.collective);
    if (!collective) {
      collective.error().key = "--collective";
      return tl::unexpected(collective.error());
    }
    options.collective = *collective;
  }
  for (const auto& [text, option, value] :
       {std::tuple{&arguments.least, "--min", &options.least}, std::tuple{&arguments.most, "--max", &options.most}}) {
    if (text->empty()) continue;
    const auto size = parse_size(*text, option);
    if (!size) return tl::unexpected(size.error());
    *value = *size;
  }
  if (options.least > options.most)
    return tl::unexpected(Error{ErrorKind::input, "is below --min", "", 0, "--max", ""});
  const auto path = resolve_topology(topology);
  if (!path) return tl::unexpected(path.error());
  const auto devices = resolve_device_folder(*path);
  if (!devices) return tl::unexpected(devices.error());
  const auto cluster = topologies::load_cluster(*path, *devices, {.gpus = gpus});
  if (!cluster) return tl::unexpected(cluster.error());
  const auto profile = find_profile(arguments.profile.empty() ? cluster->default_profile : arguments.profile);
  if (!profile) return tl::unexpected(profile.error());
  return collectives_text(*cluster, *profile, options);
}

}  // namespace plumbline::cli
