#include "reports/text/memory_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "reports/text/describe.h"
#include "reports/text/format.h"
#include "reports/text/table.h"

namespace plumbline::reports {
namespace {

constexpr std::size_t most_ranks = 16;
constexpr std::size_t most_changes = 8;
constexpr std::size_t memory_table_width = 100;

// The ranks to print, in rank order: all of them, or those with the highest peaks.
std::vector<model::RankMemory> shown_ranks(const model::Memory& memory) {
  std::vector<model::RankMemory> ranks = memory.ranks;
  if (ranks.size() <= most_ranks) return ranks;
  std::ranges::stable_sort(ranks, std::ranges::greater{}, &model::RankMemory::peak_bytes);
  ranks.resize(most_ranks);
  std::ranges::sort(ranks, {}, &model::RankMemory::rank);
  return ranks;
}

std::string verdict(const model::Memory& memory) {
  std::string text = fmt::format("{}: peak {} GB of {} GB", memory.fits ? "Fits" : "DOES NOT FIT",
                                 gigabytes(memory.peak_bytes), gigabytes(memory.capacity_bytes));
  if (memory.capacity_bytes > 0) text += fmt::format(" ({})", percent(memory.peak_bytes / memory.capacity_bytes));
  if (const model::RankMemory* fullest = model::fullest_rank(memory)) {
    text += fmt::format(", on rank {}", fullest->rank);
    if (!fullest->peak_operator.empty()) text += fmt::format(" at {}", fullest->peak_operator);
    if (!fullest->largest.empty()) text += fmt::format("; largest item: {}", fullest->largest);
  }
  return text + ".";
}

}  // namespace

std::string memory_summary(const model::Memory& memory, Style style) {
  std::string out = heading("Memory per pipeline rank at its fullest moment (GB = 1e9 bytes)", style);
  std::vector<Column> columns = {{"rank", Align::right}, {"stages"}};
  for (const char* title : {"params", "grads", "optim.", "activ.", "temp.", "comm.", "reserve", "peak", "free"})
    columns.push_back({title, Align::right});
  columns.push_back({""});
  Table table(columns, 2, memory_table_width);
  const auto ranks = shown_ranks(memory);
  for (const model::RankMemory& rank : ranks) {
    const bool over = rank.peak_bytes > memory.capacity_bytes;
    table.add({fmt::format("{}", rank.rank), stage_list(rank), gigabytes(rank.parameters_bytes),
               gigabytes(rank.gradients_bytes), gigabytes(rank.optimizer_bytes), gigabytes(rank.activations_bytes),
               gigabytes(rank.temporary_bytes), gigabytes(rank.communication_bytes), gigabytes(rank.reserve_bytes),
               gigabytes(rank.peak_bytes), gigabytes(memory.capacity_bytes - rank.peak_bytes), over ? "over" : ""});
  }
  out += table.to_string();
  if (ranks.size() < memory.ranks.size()) {
    out += paragraph(fmt::format("The {} fullest of {} ranks.", ranks.size(), memory.ranks.size()));
  }
  return out + paragraph(verdict(memory));
}

std::string memory_advice(const model::MemoryAdvice& advice, double capacity_bytes, Style style) {
  std::string out = heading("What single change would make it fit", style);
  const auto row = [](const model::MemoryChange& change) -> std::vector<std::string> {
    return {fmt::format("{}", fmt::join(change.settings, ", ")), gigabytes(change.peak_bytes)};
  };
  if (advice.fitting.empty()) {
    out += paragraph(fmt::format("None of the {} changes that were tried.", advice.tried));
    if (!advice.closest) return out;
    return out +
           paragraph(fmt::format("Closest: {}, which needs {} GB of {} GB.", fmt::join(advice.closest->settings, ", "),
                                 gigabytes(advice.closest->peak_bytes), gigabytes(capacity_bytes)));
  }
  Table table({{"--set"}, {"peak", Align::right}}, 2, memory_table_width);
  const std::size_t shown = std::min(advice.fitting.size(), most_changes);
  for (std::size_t i = 0; i < shown; ++i) table.add(row(advice.fitting[i]));
  out += table.to_string();
  return out + paragraph(fmt::format("{} of the {} changes that were tried fit{}; the smallest in memory first. What "
                                     "they cost in time `simulate` says.",
                                     advice.fitting.size(), advice.tried,
                                     shown < advice.fitting.size() ? fmt::format(", {} are listed", shown) : ""));
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

}  // namespace plumbline::reports
