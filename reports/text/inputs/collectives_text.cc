#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "reports/csv/csv_table.h"
#include "reports/text/inputs/inputs_text.h"
#include "reports/text/step/describe.h"

namespace plumbline::reports {
namespace {

using model::Collective;
using model::CollectiveCost;
using model::CollectiveGroup;

constexpr std::int64_t element = 4;  // bytes of a float

// Returns a time in the format of nccl-tests: two digits below 100 us, one below 10 ms.
std::string microseconds(double seconds) {
  const double us = seconds * 1e6;
  return fmt::format("{:7.{}f}", us, us >= 10'000 ? 0 : us >= 100 ? 1 : 2);
}

// The columns count and size of nccl-tests for a buffer of `bytes`. Collectives that distribute the buffer count
// elements per rank, a multiple of 16 bytes.
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

// Returns a constant with its kind: "network.nic_rate 40 GB/s (assumed)".
std::string constant(const model::Profile& profile, std::string_view name) {
  const model::Parameter& p = profile.parameters()[*profile.find(name)];
  return fmt::format("{} {:.4g} {} ({})", name, p.value, p.unit, model::to_string(p.kind));
}

std::string heading(const model::ClusterShape& cluster, const model::Profile& profile,
                    const CollectivesOptions& options, const CollectiveCost& cost, const CollectiveGroup& group) {
  std::string out = "# predicted by plumbline, not measured\n";
  out += fmt::format("# {}: {} x {}, {} on a node; profile {}\n", cluster.name, group.ranks, cluster.device.name,
                     group.ranks_per_node, profile.name());
  out += fmt::format("# {} minBytes {} maxBytes {} step: 2(factor)\n", model::to_string(options.collective),
                     options.least, options.most);
  out += fmt::format("# constants of collectives: {}\n", evidence_counts(profile.parameters(), "collective."));
  for (const char* name : {"network.nvlink_rate", "network.nic_rate"})
    out += fmt::format("# {}\n", constant(profile, name));
  out += fmt::format("# on these links, per GPU and direction: NVLink {:.1f} GB/s, network {:.1f} GB/s\n",
                     cost.nvlink_rate() / 1e9, cost.nic_rate() / 1e9);
  return out +
         "#\n"
         "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
         "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)\n";
}

// A row of the table; rates in GB/s.
struct CollectiveRow {
  Counted counted;
  double seconds = 0, rate = 0, bus = 0;
};

std::vector<CollectiveRow> rows_of(const CollectivesOptions& options, const CollectiveCost& cost,
                                   const CollectiveGroup& group) {
  std::vector<CollectiveRow> rows;
  for (std::int64_t bytes = options.least; bytes <= options.most; bytes *= 2) {
    const Counted c = counted(options.collective, bytes, group.ranks);
    const double seconds = cost.time(options.collective, group, model::Bytes(static_cast<double>(c.size)));
    const double rate = static_cast<double>(c.size) / seconds / 1e9;
    rows.push_back({c, seconds, rate, rate * model::bus_factor(options.collective, group.ranks)});
  }
  return rows;
}

// Returns all GPUs of the cluster; a single one is an input error.
model::Result<CollectiveGroup> group_of(const model::ClusterShape& cluster) {
  if (cluster.gpus < 2) return model::wrong_input("--gpus", "a collective needs at least two GPUs");
  return CollectiveGroup::strided(cluster.gpus, 1, cluster.gpus_per_node);
}

}  // namespace

model::Result<std::string> collectives_csv(const model::ClusterShape& cluster, const model::Profile& profile,
                                           const CollectivesOptions& options) {
  const auto group = TRY(group_of(cluster));
  const auto cost = TRY(CollectiveCost::make(profile, cluster));
  CsvTable table({"collective", "gpus", "size_bytes", "elements", "time_s", "algbw_gb_per_s", "busbw_gb_per_s"});
  for (const CollectiveRow& row : rows_of(options, cost, group))
    table.row(model::to_string(options.collective), group.ranks, row.counted.size, row.counted.count, row.seconds,
              row.rate, row.bus);
  return table.text();
}

model::Result<std::string> collectives_text(const model::ClusterShape& cluster, const model::Profile& profile,
                                            const CollectivesOptions& options) {
  const auto group = TRY(group_of(cluster));
  const auto cost = TRY(CollectiveCost::make(profile, cluster));
  const bool sums = options.collective == Collective::all_reduce || options.collective == Collective::reduce_scatter;
  const int root = options.collective == Collective::broadcast ? 0 : -1;
  std::string out = heading(cluster, profile, options, cost, group);
  double sum = 0;
  const std::vector<CollectiveRow> rows = rows_of(options, cost, group);
  for (const auto& [c, seconds, rate, bus] : rows) {
    out += fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}  {}  {:6.2f}  {:6.2f}  {:>5}\n", c.size, c.count, "float",
                       sums ? "sum" : "none", root, microseconds(seconds), rate, bus, "N/A");
    sum += bus;
  }
  return out + fmt::format("# Avg bus bandwidth    : {:.4g}\n#\n", sum / static_cast<double>(rows.size()));
}

}  // namespace plumbline::reports
