#include "calibrate/chunk/chunk_comparison.h"

#include <algorithm>
#include <utility>

#include "calibrate/chunk/chunk_metric.h"

namespace plumbline::calibrate {
namespace {

bool same_key(const ComparedTime& a, const ComparedTime& b) {
  return a.name == b.name && a.kind == b.kind && a.slot == b.slot;
}

// Every entry of either side once, the measured ones first; `entry` makes one of an element and its side.
template <class Elements, class Entry>
std::vector<ComparedTime> lined_up(const Elements& measured, const Elements& predicted, const Entry& entry) {
  std::vector<ComparedTime> rows;
  for (const auto& element : measured) {
    auto [row, seconds] = entry(element);
    row.measured = seconds;
    rows.push_back(std::move(row));
  }
  for (const auto& element : predicted) {
    const std::pair<ComparedTime, double> timed = entry(element);
    const ComparedTime& row = timed.first;
    const auto found = std::ranges::find_if(rows, [&](const ComparedTime& known) { return same_key(known, row); });
    ComparedTime& target = found == rows.end() ? rows.emplace_back(row) : *found;
    target.predicted = timed.second;
  }
  return rows;
}

std::vector<ComparedTime> compare_totals(const ChunkSummary& measured, const ChunkSummary& predicted) {
  const std::pair<const char*, const char*> metrics[] = {{"chunk", "chunk.time_s"},
                                                         {"compute busy", "chunk.compute_busy_s"},
                                                         {"communication busy", "chunk.communication_busy_s"},
                                                         {"exposed communication", "chunk.exposed_communication_s"}};
  std::vector<ComparedTime> rows;
  for (const auto& [name, metric] : metrics)
    rows.push_back({name, "", -1, chunk_value(metric, predicted), chunk_value(metric, measured)});
  return rows;
}

std::vector<ComparedTime> compare_periods(const ChunkSummary& measured, const ChunkSummary& predicted) {
  std::vector<ComparedTime> rows;
  for (std::size_t i = 0; i < std::min(measured.periods.size(), predicted.periods.size()); ++i)
    rows.push_back({"period", "", static_cast<int>(i) + 1, predicted.periods[i], measured.periods[i]});
  return rows;
}

bool any_rows(const sim::ChunkRank& rank) {
  return std::ranges::any_of(rank.slots,
                             [](const auto& slot) { return slot.forward_rows > 0 || slot.backward_rows > 0; });
}

bool any_waits(const sim::ChunkRank& rank) {
  return std::ranges::any_of(rank.slots, [](const auto& slot) {
    return std::ranges::any_of(slot.waits, [](const auto& wait) { return wait.has_value(); });
  });
}

}  // namespace

std::optional<double> ComparedTime::error() const {
  if (!same_work || !predicted || !measured || *measured <= 0) return std::nullopt;
  return *predicted / *measured - 1;
}

ChunkComparison compare(ChunkSummary measured, ChunkSummary predicted) {
  ChunkComparison result;
  result.totals = compare_totals(measured, predicted);
  result.classes = lined_up(measured.classes, predicted.classes, [](const ChunkSummary::ClassTime& c) {
    return std::pair(ComparedTime{c.row, "", -1, {}, {}}, c.seconds);
  });
  result.same_slots = measured.slots > 0 && measured.slots == predicted.slots;
  if (result.same_slots) {
    result.spans = lined_up(measured.spans, predicted.spans, [](const ChunkSummary::Span& s) {
      return std::pair(ComparedTime{s.name, "", s.slot, {}, {}}, s.end - s.start);
    });
    result.periods = compare_periods(measured, predicted);
    result.products = lined_up(measured.products, predicted.products, [](const ChunkSummary::Product& p) {
      return std::pair(ComparedTime{p.name, p.kind, -1, {}, {}}, p.mean());
    });
  }
  for (auto* rows : {&result.totals, &result.classes})
    for (ComparedTime& row : *rows) row.same_work = result.same_slots;
  result.measured = std::move(measured);
  result.predicted = std::move(predicted);
  return result;
}

model::Result<ChunkComparison> compare_chunk(const Chunk& chunk, const KernelClasses& classes,
                                             const sim::Inputs& inputs, Waits waits) {
  ChunkSummary measured = summarise(chunk, classes);
  const sim::ChunkRank rank = rank_of(chunk, classes, waits == Waits::measured);
  const auto expected = sim::run_chunk(inputs, {});
  if (!expected) return tl::unexpected(expected.error());
  ChunkSummary predicted = summarise(*expected);
  if (measured.slots == 0 || measured.slots != predicted.slots)
    return compare(std::move(measured), std::move(predicted));
  const auto run = sim::run_chunk(inputs, rank);
  if (!run) return tl::unexpected(run.error());
  ChunkComparison result = compare(std::move(measured), summarise(*run));
  result.rows_given = any_rows(rank);
  result.waits_given = any_waits(rank);
  return result;
}

}  // namespace plumbline::calibrate
