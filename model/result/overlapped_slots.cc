#include "model/result/overlapped_slots.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "model/schedule/schedule.h"

namespace plumbline::model {

namespace {

constexpr std::uint8_t slot_depth = 0, phase_depth = 1, kernel_depth = 2;
struct Interval {
  std::int64_t start_ps = 0, end_ps = 0;
};
using Intervals = std::map<std::string, std::vector<Interval>>;

struct Pair {
  std::int64_t start_ps = 0, end_ps = 0;
  Intervals phases, kernels;

  double seconds() const { return static_cast<double>(end_ps - start_ps) * 1e-12; }
};

// In which any of them runs: streams may share one operator, and its halves then run at the same time.
double covered_seconds(std::vector<Interval> intervals) {
  std::ranges::sort(intervals, {}, &Interval::start_ps);
  std::int64_t covered_ps = 0, end_ps = std::numeric_limits<std::int64_t>::min();
  for (const Interval& interval : intervals) {
    covered_ps += std::max<std::int64_t>(0, interval.end_ps - std::max(interval.start_ps, end_ps));
    end_ps = std::max(end_ps, interval.end_ps);
  }
  return static_cast<double>(covered_ps) * 1e-12;
}

// The pairs of a rank in order of time, with what began in them.
std::vector<Pair> pairs_of(const Timeline& timeline, std::int32_t rank) {
  std::vector<Pair> pairs;
  for (const Span& span : timeline.spans)
    if (span.rank == rank && span.depth == slot_depth && timeline.names[span.name] == to_string(OpType::FB))
      pairs.push_back({span.start_ps, span.start_ps + span.duration_ps, {}, {}});
  std::ranges::sort(pairs, {}, &Pair::start_ps);
  for (const Span& span : timeline.spans) {
    const bool inside = span.stream != Stream::pipeline && span.stream != Stream::optimizer;
    if (span.rank != rank || span.depth == slot_depth || !inside) continue;
    const auto after = std::ranges::upper_bound(pairs, span.start_ps, {}, &Pair::start_ps);
    if (after == pairs.begin() || span.start_ps >= std::prev(after)->end_ps) continue;
    Pair& pair = *std::prev(after);
    Intervals& parts = span.depth == phase_depth ? pair.phases : pair.kernels;
    parts[timeline.names[span.name]].push_back({span.start_ps, span.start_ps + span.duration_ps});
  }
  return pairs;
}

std::int32_t lowest_rank(const Timeline& timeline) {
  std::int32_t lowest = std::numeric_limits<std::int32_t>::max();
  for (const Span& span : timeline.spans) lowest = std::min(lowest, span.rank);
  return lowest;
}

// Means of what both timelines have; what one alone has (meetings of ranks, say) is no row.
std::vector<PredictionRow> rows_of(const std::vector<const Pair*>& predicted, const std::vector<const Pair*>& measured,
                                   Intervals Pair::*part) {
  std::map<std::string, PredictionRow> rows;
  const auto add = [&](const std::vector<const Pair*>& pairs, double PredictionRow::*seconds) {
    for (const Pair* pair : pairs)
      for (const auto& [name, intervals] : pair->*part)
        rows.try_emplace(name, PredictionRow{name}).first->second.*seconds +=
            covered_seconds(intervals) / static_cast<double>(pairs.size());
  };
  add(predicted, &PredictionRow::predicted_s);
  add(measured, &PredictionRow::measured_s);
  std::vector<PredictionRow> found;
  for (auto& [name, row] : rows)
    if (row.predicted_s > 0 && row.measured_s > 0) found.push_back(std::move(row));
  std::ranges::stable_sort(found, std::ranges::greater(), &PredictionRow::measured_s);
  return found;
}

}  // namespace

double OverlappedSlots::median_error() const {
  const std::size_t upper = errors.size() / 2, lower = (errors.size() - 1) / 2;
  return (errors[lower] + errors[upper]) / 2;
}

std::optional<OverlappedSlots> overlapped_slots(const Timeline& predicted, const Timeline& measured) {
  const std::int32_t rank = lowest_rank(measured);
  const std::vector<Pair> first = pairs_of(predicted, rank), second = pairs_of(measured, rank);
  if (first.empty() || first.size() != second.size()) return std::nullopt;
  OverlappedSlots slots;
  slots.rank = rank;
  slots.each.name = to_string(OpType::FB);
  std::vector<const Pair*> all_first, all_second, shown, like_shown;
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (second[i].seconds() <= 0) return std::nullopt;
    all_first.push_back(&first[i]);
    all_second.push_back(&second[i]);
    slots.errors.push_back(first[i].seconds() / second[i].seconds() - 1);
    slots.each.predicted_s += first[i].seconds() / static_cast<double>(first.size());
    slots.each.measured_s += second[i].seconds() / static_cast<double>(first.size());
    if (!first[i].kernels.empty()) shown.push_back(&first[i]);
  }
  std::ranges::sort(slots.errors);
  slots.phases = rows_of(all_first, all_second, &Pair::phases);
  // Pairs that are predicted to take the same are alike.
  constexpr double same = 1e-6;
  for (std::size_t i = 0; i < first.size() && !shown.empty(); ++i)
    if (std::abs(first[i].seconds() / shown.front()->seconds() - 1) < same) like_shown.push_back(&second[i]);
  if (!shown.empty()) slots.kernels = rows_of({shown.front()}, like_shown, &Pair::kernels);
  return slots;
}

std::vector<PredictionRow> grouped(const std::vector<PredictionRow>& rows,
                                   const std::map<std::string, std::string>& groups) {
  std::vector<PredictionRow> found;
  for (const PredictionRow& row : rows) {
    const auto group = groups.find(row.name);
    if (group == groups.end()) continue;
    auto at = std::ranges::find(found, group->second, &PredictionRow::name);
    if (at == found.end()) at = found.insert(found.end(), PredictionRow{group->second});
    at->predicted_s += row.predicted_s;
    at->measured_s += row.measured_s;
  }
  return found;
}

}  // namespace plumbline::model
