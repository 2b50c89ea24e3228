#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "model/base/text.h"
#include "reports/quantities.h"
#include "reports/text/step/describe.h"
#include "reports/text/step/summary.h"
#include "reports/text/table.h"

namespace plumbline::reports {
namespace {

class Writer {
 public:
  void row(std::string_view metric, std::optional<double> value, std::string_view unit) {
    table_.row(metric, value, unit);
  }
  void per_op(std::string_view metric, const model::PerOp& values) {
    for (std::size_t i = 0; i < values.size(); ++i)
      row(fmt::format("{}.{}", metric, model::to_string(static_cast<model::OpType>(i))), values[i], "s");
  }
  const std::string& text() const { return table_.text(); }

 private:
  CsvTable table_{{"metric", "value", "unit"}};
};

void write_step(Writer& out, const model::StepTimes& step) {
  visit_step(step, [&](std::string_view key, const auto& value, std::string_view unit, auto) {
    if constexpr (std::is_convertible_v<decltype(value), std::optional<double>>)
      if (!unit.empty()) out.row(fmt::format("step.{}", key), value, unit);
  });
  out.per_op("step.slots_s", step.slots_s);
  out.per_op("step.slots_mean_s", step.slots_mean_s);
  out.per_op("step.exposed_mean_s", step.exposed_mean_s);
  out.per_op("step.chunk_s", step.chunk_s);
  visit_breakdown(step, [&](const std::string& key, std::optional<double> seconds) {
    out.row("step.breakdown_s." + key, seconds, "s");
  });
}

using model::Quantiles;
constexpr std::pair<std::string_view, double Quantiles::*> percentiles[] = {
    {"p10", &Quantiles::p10}, {"p50", &Quantiles::p50}, {"p90", &Quantiles::p90}};

void write_cluster(Writer& out, const model::ClusterSpread& cluster) {
  visit_cluster(cluster, [&](std::string_view key, const auto& value, std::string_view unit, auto) {
    using Value = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_same_v<Value, Quantiles>) {
      for (const auto& [name, quantile] : percentiles)
        out.row(fmt::format("cluster.{}.{}", key, name), value.*quantile, unit);
    } else if constexpr (std::is_same_v<Value, std::vector<double>>) {
      for (std::size_t i = 0; i < value.size(); ++i) out.row(fmt::format("cluster.{}.{}", key, i), value[i], unit);
    } else if constexpr (std::is_arithmetic_v<Value>) {
      if (!unit.empty()) out.row(fmt::format("cluster.{}", key), static_cast<double>(value), unit);
    }
  });
  for (const model::BubblePart& part : cluster.bubble) {
    out.row(fmt::format("cluster.bubble.{}.seconds", part.cause), part.seconds, "s");
    out.row(fmt::format("cluster.bubble.{}.step_s", part.cause), part.step_s, "s");
  }
}

// Without an interval the quantiles are empty and there are no parts.
void write_interval(Writer& out, const std::optional<model::PredictionInterval>& known) {
  const model::PredictionInterval interval = known.value_or(model::PredictionInterval());
  visit_quantiles(interval,
                  [&](std::string_view key, const std::optional<Quantiles>& quantiles, const char* unit, auto) {
                    for (const auto& [name, quantile] : percentiles)
                      out.row(fmt::format("interval.{}.{}", key, name),
                              known && quantiles ? std::optional((*quantiles).*quantile) : std::nullopt, unit);
                  });
  if (!known) return;
  out.row("interval.fits_probability", interval.fits_probability, "1");
  out.row("interval.left_factor", interval.left_factor, "1");
  for (const model::IntervalPart& part : interval.parts) {
    out.row("interval.parts." + part.source + ".share", part.share, "1");
    out.row("interval.parts." + part.source + ".half_width_after", part.half_width_after, "1");
  }
}

void write_run(Writer& out, const model::RunCost& run) {
  visit_run(
      run,
      [&](std::string_view key, const auto& value, std::string_view unit, auto) {
        out.row(fmt::format("run.{}", key), value, unit);
      },
      [&] {
        for (const model::RunPhaseCost& phase : run.phases)
          out.row(fmt::format("run.phases.{}.gpu_hours", phase.name), phase.gpu_hours, "h");
      });
  const auto& price = run.price().value;
  out.row("run.price_usd_per_gpu_hour", price ? std::optional(price->value) : std::nullopt, "USD/GPU-h");
  out.row("run.total_cost_usd_low", run.cost_low_usd(run.total_gpu_hours), "USD");
  out.row("run.total_cost_usd_high", run.cost_high_usd(run.total_gpu_hours), "USD");
  out.row("run.total_energy_mwh", run.energy_mwh(run.total_gpu_hours), "MWh");
}

void write_memory(Writer& out, const model::Memory& memory) {
  out.row("memory.peak_bytes", memory.peak_bytes, "B");
  out.row("memory.capacity_bytes", memory.capacity_bytes, "B");
  out.row("memory.fits", memory.fits ? 1 : 0, "1");
  for (const model::RankMemory& rank : memory.ranks) {
    const auto row = [&](std::string_view part, double bytes) {
      out.row(fmt::format("memory.stages.{}.{}", rank.rank, part), bytes, "B");
    };
    row("parameters_bytes", rank.parameters_bytes);
    row("gradients_bytes", rank.gradients_bytes);
    row("optimizer_bytes", rank.optimizer_bytes);
    row("activations_bytes", rank.activations_bytes);
    row("buffers_bytes", rank.buffers_bytes());
    row("temporary_bytes", rank.temporary_bytes);
    row("communication_bytes", rank.communication_bytes);
    row("reserve_bytes", rank.reserve_bytes);
    row("peak_bytes", rank.peak_bytes);
  }
}

constexpr std::size_t most_ranks = 16;
constexpr std::size_t most_changes = 8;

// Returns the ranks to print, in rank order: all of them, or those with the highest peaks.
std::vector<model::RankMemory> shown_ranks(const model::Memory& memory) {
  std::vector<model::RankMemory> ranks = memory.ranks;
  if (ranks.size() <= most_ranks) return ranks;
  std::ranges::stable_sort(ranks, std::ranges::greater{}, &model::RankMemory::peak_bytes);
  ranks.resize(most_ranks);
  std::ranges::sort(ranks, {}, &model::RankMemory::rank);
  return ranks;
}

std::string verdict(const model::Memory& memory) {
  const model::Fit fit = model::fit_of(memory);
  std::string text = fit == model::Fit::fits ? "Fits" : fit == model::Fit::at_the_edge ? "AT THE EDGE" : "DOES NOT FIT";
  if (memory.fits_probability) text += ", with " + model::chance(*memory.fits_probability, 1);
  const std::string capacity = gigabytes(memory.capacity_bytes);
  const model::RankMemory* rank = model::fullest_rank(memory);
  if (rank == nullptr || rank->allocated_bytes == 0)
    return fmt::format("{}: peak {} GB of {} GB.", text, gigabytes(memory.peak_bytes), capacity);
  const std::string low = gigabytes(rank->library_bytes + rank->unused_low_bytes);
  const std::string high = gigabytes(rank->library_bytes + rank->unused_high_bytes);
  text +=
      fmt::format(": rank {} needs {} GB of tensors and {} GB more, of {} GB", rank->rank,
                  gigabytes(rank->allocated_bytes), low == high ? low : fmt::format("{} to {}", low, high), capacity);
  if (!rank->peak_operator.empty()) text += fmt::format(", at {}", rank->peak_operator);
  if (!rank->largest.empty()) text += fmt::format("; largest item: {}", rank->largest);
  const double margin = memory.capacity_bytes - rank->least_bytes();
  return text + fmt::format("; {} {} GB.", margin < 0 ? "too much:" : "margin", gigabytes(std::abs(margin)));
}

constexpr const char* explanation =
    "More: driver and libraries, and what the allocator holds unused, which differs between runs. A framework prints "
    "tensors as allocated, and with what its allocator holds as reserved; nvidia-smi shows all. The margin, and what "
    "is free on a rank, is left with the least.";

std::string unused(const model::MemoryChange& change) {
  const std::string low = gigabytes(change.unused_low_bytes), high = gigabytes(change.unused_high_bytes);
  return low == high ? low : fmt::format("{} to {}", low, high);
}

std::vector<std::string> change_row(const model::MemoryChange& change) {
  const bool fsdp = std::ranges::find(change.settings, "parallelism.zero_stage=3") != change.settings.end();
  return {fmt::format("{}{}", fmt::join(change.settings, ", "), fsdp ? "  (FSDP)" : ""),
          change.step_ratio ? signed_percent(*change.step_ratio - 1) : "-",
          gigabytes(change.allocated_bytes),
          unused(change),
          gigabytes(change.margin_bytes),
          model::chance(change.fits_probability, 1)};
}

// Returns what the hosts hold, and whether they can; empty where nothing is offloaded.
std::string host_sentence(const model::Memory& memory) {
  if (memory.host_bytes == 0) return "";
  const std::string needed =
      fmt::format("The fullest host needs {} GB for what is offloaded", gigabytes(memory.host_bytes));
  if (memory.host_capacity_bytes == 0) return needed + "; its memory is not known.";
  return fmt::format("{}, and up to half more for buffers, of {} GB{}.", needed, gigabytes(memory.host_capacity_bytes),
                     memory.host_fits() ? "" : ": it does NOT hold them");
}

constexpr std::size_t plot_width = 72, plot_height = 18;

// Items from the bottom up; those that stay allocated come first.
using Item = std::pair<char, std::string_view>;
constexpr std::array<Item, 7> items = {Item{'p', "parameters"}, Item{'g', "gradients"},   Item{'o', "optimizer"},
                                       Item{'r', "reserve"},    Item{'a', "activations"}, Item{'c', "communication"},
                                       Item{'t', "temporary"}};

std::array<double, items.size()> bytes_of(const model::RankMemory& rank, const model::MemoryLevel& level) {
  return {rank.parameters_bytes,   rank.gradients_bytes,      rank.optimizer_bytes, rank.reserve_bytes,
          level.activations_bytes, level.communication_bytes, level.temporary_bytes};
}

// Returns the letter of the item at a height of a column, ' ' above all.
char letter_at(const std::array<double, items.size()>& bytes, double height) {
  for (std::size_t i = 0; i < items.size(); ++i)
    if ((height -= bytes[i]) < 0) return items[i].first;
  return ' ';
}

// Returns one op per column: of several in one column that with the highest use; few ops take several columns each.
std::vector<const model::MemoryLevel*> columns_of(const std::vector<model::MemoryLevel>& ops) {
  std::vector<const model::MemoryLevel*> columns;
  const std::size_t count = std::min(ops.size(), plot_width);
  for (std::size_t i = 0; i < count; ++i) {
    const auto first = ops.begin() + static_cast<std::ptrdiff_t>(i * ops.size() / count);
    const auto last = ops.begin() + static_cast<std::ptrdiff_t>((i + 1) * ops.size() / count);
    const auto fullest =
        std::max_element(first, last, [](const auto& a, const auto& b) { return a.total_bytes < b.total_bytes; });
    columns.insert(columns.end(), plot_width / count, &*fullest);
  }
  return columns;
}

}  // namespace

std::string to_csv(const model::StepResult& result) {
  Writer out;
  write_step(out, result.step);
  write_interval(out, result.interval);
  if (result.cluster) write_cluster(out, *result.cluster);
  out.row("bound.time_s", result.bound_s, "s");
  out.row("bound.flops_at_peak_s", result.flops_at_peak_s, "s");
  for (const model::LostTime& part : result.lost) out.row("bound.lost_s." + part.cause, part.seconds, "s");
  if (result.run) write_run(out, *result.run);
  write_memory(out, result.memory);
  for (const EvidenceShare& share : evidence_shares(result.provenance))
    out.row(fmt::format("provenance.{}.share_of_step", model::to_string(share.kind)), share.share, "1");
  return out.text();
}

std::string memory_summary(const model::Memory& memory, Style style) {
  std::string out = heading("Memory per pipeline rank at its fullest moment (GB = 1e9 bytes)", style);
  Table table(">rank | stages | >params | >grads | >optim. | >activ. | >temp. | >comm. | >reserve | >peak | >free | ");
  const auto ranks = shown_ranks(memory);
  for (const model::RankMemory& rank : ranks) {
    const bool over = rank.peak_bytes > memory.capacity_bytes;
    table.row(rank.rank, stage_list(rank), gigabytes(rank.parameters_bytes), gigabytes(rank.gradients_bytes),
              gigabytes(rank.optimizer_bytes), gigabytes(rank.activations_bytes), gigabytes(rank.temporary_bytes),
              gigabytes(rank.communication_bytes), gigabytes(rank.reserve_bytes), gigabytes(rank.peak_bytes),
              gigabytes(memory.capacity_bytes - rank.least_bytes()), over ? "over" : "");
  }
  out += table.to_string();
  if (ranks.size() < memory.ranks.size())
    out += paragraph(fmt::format("The {} fullest of {} ranks.", ranks.size(), memory.ranks.size()));
  out += paragraph(verdict(memory));
  if (const std::string host = host_sentence(memory); !host.empty()) out += paragraph(host);
  return memory.measured ? out : out + paragraph(explanation);
}

std::string memory_advice(const model::MemoryAdvice& advice, double capacity_bytes, Style style) {
  std::string out = heading("What single change would make it fit", style);
  if (advice.fitting.empty()) {
    out += paragraph(fmt::format("None of the {} changes that were tried.", advice.tried));
    if (!advice.closest) return out;
    return out + paragraph(fmt::format("Closest: {}, which fits with {}: {} GB of {} GB.",
                                       fmt::join(advice.closest->settings, ", "),
                                       model::chance(advice.closest->fits_probability, 1),
                                       gigabytes(advice.closest->peak_bytes), gigabytes(capacity_bytes)));
  }
  Table table("--set | >step | >tensors | >unused | >margin | >fits with");
  const std::size_t shown = std::min(advice.fitting.size(), most_changes);
  for (std::size_t i = 0; i < shown; ++i) table.add(change_row(advice.fitting[i]));
  out += table.to_string();
  return out +
         paragraph(fmt::format(
             "{} of the {} changes that were tried {} with 95 % or more{}; the cheapest first. Step: its time "
             "against that of the plan, by the closed form. Unused: what the allocator holds "
             "in addition to tensors. Margin: what tensors, driver, libraries and the least "
             "unused leave of {} GB.",
             advice.fitting.size(), advice.tried, advice.fitting.size() == 1 ? "fits" : "fit",
             shown < advice.fitting.size() ? fmt::format(", {} are listed", shown) : "", gigabytes(capacity_bytes)));
}

LineChart memory_chart(const model::RankLevels& levels, double capacity_bytes, const std::string& model) {
  constexpr double giga = 1e9;
  const model::RankMemory& rank = levels.rank;
  const double state = rank.parameters_bytes + rank.gradients_bytes + rank.optimizer_bytes;
  LineChart chart;
  chart.title = fmt::format("{}: memory of rank {} over a step", model, rank.rank);
  chart.subtitle = fmt::format("fullest moment of each schedule op; peak {} GB of {} GB at {}",
                               gigabytes(rank.peak_bytes), gigabytes(capacity_bytes), rank.peak_operator);
  chart.x_title = "op of the rank's schedule";
  LineChart::Panel large{
      "GB", true, {{"all", {}}, {"activations", {}}, {"parameters, gradients, optimizer", {}}, {"capacity", {}}}};
  LineChart::Panel small{"GB", true, {{"temporary", {}}, {"communication buffers", {}}, {"reserve", {}}}};
  for (std::size_t i = 0; i < levels.ops.size(); ++i) {
    const model::MemoryLevel& level = levels.ops[i];
    const auto x = static_cast<double>(i);
    const auto add = [x](LineChart::Series& series, double bytes) { series.points.push_back({x, bytes / giga}); };
    add(large.series[0], level.total_bytes);
    add(large.series[1], level.activations_bytes);
    add(large.series[2], state);
    add(large.series[3], capacity_bytes);
    add(small.series[0], level.temporary_bytes);
    add(small.series[1], level.communication_bytes);
    add(small.series[2], rank.reserve_bytes);
  }
  if (!levels.ops.empty()) chart.marks.push_back({static_cast<double>(levels.fullest), rank.peak_bytes / giga, "peak"});
  chart.panels = {std::move(large), std::move(small)};
  return chart;
}

std::string memory_plot(const model::RankLevels& levels, double capacity_bytes, Style style) {
  const model::RankMemory& rank = levels.rank;
  const auto columns = columns_of(levels.ops);
  const double top = std::max(capacity_bytes, rank.peak_bytes);
  if (columns.empty() || top <= 0) return "";
  std::string out = heading(fmt::format("Rank {} over the step (GB)", rank.rank), style);
  const double row_bytes = top / static_cast<double>(plot_height);
  const auto row_of = [row_bytes](double bytes) { return static_cast<std::size_t>(std::ceil(bytes / row_bytes)); };
  for (std::size_t row = plot_height + 1; row-- > 0;) {
    const double middle = (static_cast<double>(row) + 0.5) * row_bytes;
    const bool limit = row == row_of(capacity_bytes);
    std::string line = limit          ? fmt::format("{:>6} +", gigabytes(capacity_bytes))
                       : row % 3 == 0 ? fmt::format("{:>6} |", gigabytes(static_cast<double>(row) * row_bytes))
                                      : fmt::format("{:>6} |", "");
    for (const model::MemoryLevel* level : columns) {
      const char letter = letter_at(bytes_of(rank, *level), middle);
      line += limit && letter == ' ' ? '-' : letter;
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  }
  const std::string last = fmt::format("op {}", levels.ops.size() - 1);
  out += fmt::format("{:>6} +{}\n", "", std::string(columns.size(), '-'));
  out += fmt::format("{:>8}op 0{:>{}}\n", "", last, std::max<std::size_t>(columns.size(), 12) - 4);
  std::string legend;
  for (const auto& [letter, name] : items) legend += fmt::format("{}{} {}", legend.empty() ? "" : ", ", letter, name);
  return out + paragraph(fmt::format("{}. Dashes: capacity. Each column: the fullest moment of its ops.", legend));
}

}  // namespace plumbline::reports
