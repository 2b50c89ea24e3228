#include "model/result/timeline_comparison.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "model/result/timeline_summary.h"
#include "model/schedule/schedule.h"

namespace plumbline::model {
namespace {

using Intervals = std::map<std::string, std::vector<Interval>>;

struct Pair {
  std::int64_t start_ps = 0, end_ps = 0;
  Intervals phases, kernels;

  double seconds() const { return static_cast<double>(end_ps - start_ps) * 1e-12; }
};

// Returns the pairs of a rank in order of time, with the spans that began in them.
std::vector<Pair> pairs_of(const Timeline& timeline, std::int32_t rank) {
  std::vector<Pair> pairs;
  for (const Span& span : timeline.spans)
    if (span.rank == rank && span.depth == slot_depth && timeline.names[span.name] == to_string(OpType::FB))
      pairs.push_back({span.start_ps, span.end_ps(), {}, {}});
  std::ranges::sort(pairs, {}, &Pair::start_ps);
  for (const Span& span : timeline.spans) {
    const bool inside = span.stream != Stream::pipeline && span.stream != Stream::optimizer;
    if (span.rank != rank || span.depth == slot_depth || !inside) continue;
    const auto after = std::ranges::upper_bound(pairs, span.start_ps, {}, &Pair::start_ps);
    if (after == pairs.begin() || span.start_ps >= std::prev(after)->end_ps) continue;
    Pair& pair = *std::prev(after);
    Intervals& parts = span.depth == phase_depth ? pair.phases : pair.kernels;
    parts[timeline.names[span.name]].push_back({span.start_ps, span.end_ps()});
  }
  return pairs;
}

std::int32_t lowest_rank(const Timeline& timeline) {
  std::int32_t lowest = std::numeric_limits<std::int32_t>::max();
  for (const Span& span : timeline.spans) lowest = std::min(lowest, span.rank);
  return lowest;
}

// Returns the means of the entries that both timelines have; others (such as barriers between ranks) are left out.
std::vector<ComparedTime> rows_of(const std::vector<const Pair*>& predicted, const std::vector<const Pair*>& measured,
                                  Intervals Pair::*part) {
  std::map<std::string, ComparedTime> rows;
  const auto add = [&](const std::vector<const Pair*>& pairs, std::optional<double> ComparedTime::*side) {
    for (const Pair* pair : pairs)
      for (const auto& [name, intervals] : pair->*part) {
        std::optional<double>& mean = rows.try_emplace(name, ComparedTime{name, {}, {}}).first->second.*side;
        mean = mean.value_or(0) + covered(intervals) / static_cast<double>(pairs.size());
      }
  };
  add(predicted, &ComparedTime::predicted_s);
  add(measured, &ComparedTime::measured_s);
  std::vector<ComparedTime> found;
  for (auto& [name, row] : rows)
    if (row.predicted_s.value_or(0) > 0 && row.measured_s.value_or(0) > 0) found.push_back(std::move(row));
  std::ranges::stable_sort(found, std::ranges::greater(), &ComparedTime::measured_s);
  return found;
}

std::optional<OverlappedSlots> overlapped_slots(const Timeline& predicted, const Timeline& measured) {
  const std::int32_t rank = lowest_rank(measured);
  const std::vector<Pair> first = pairs_of(predicted, rank), second = pairs_of(measured, rank);
  if (first.empty() || first.size() != second.size()) return std::nullopt;
  const auto count = static_cast<double>(first.size());
  double predicted_s = 0, measured_s = 0;
  OverlappedSlots slots;
  slots.rank = rank;
  std::vector<const Pair*> all_first, all_second, shown, like_shown;
  for (std::size_t i = 0; i < first.size(); ++i) {
    const auto error = relative_error(first[i].seconds(), second[i].seconds());
    if (!error) return std::nullopt;
    all_first.push_back(&first[i]);
    all_second.push_back(&second[i]);
    slots.errors.push_back(*error);
    predicted_s += first[i].seconds() / count;
    measured_s += second[i].seconds() / count;
    if (!first[i].kernels.empty()) shown.push_back(&first[i]);
  }
  slots.each = {std::string(to_string(OpType::FB)), predicted_s, measured_s};
  std::ranges::sort(slots.errors);
  slots.phases = rows_of(all_first, all_second, &Pair::phases);
  // Pairs with the same predicted time are alike.
  constexpr double same = 1e-6;
  for (std::size_t i = 0; i < first.size() && !shown.empty(); ++i)
    if (std::abs(first[i].seconds() / shown.front()->seconds() - 1) < same) like_shown.push_back(&second[i]);
  if (!shown.empty()) slots.kernels = rows_of({shown.front()}, like_shown, &Pair::kernels);
  return slots;
}

bool same_key(const ComparedTime& a, const ComparedTime& b) {
  return a.name == b.name && a.kind == b.kind && a.slot == b.slot;
}

// Returns a row for every entry of either side, the measured ones first; `row_of` makes a row with its measured time.
template <class Entries, class RowOf>
std::vector<ComparedTime> lined_up(const Entries& predicted, const Entries& measured, const RowOf& row_of) {
  std::vector<ComparedTime> rows;
  for (const auto& entry : measured) rows.push_back(row_of(entry));
  for (const auto& entry : predicted) {
    ComparedTime row = row_of(entry);
    std::swap(row.predicted_s, row.measured_s);
    const auto found = std::ranges::find_if(rows, [&](const ComparedTime& known) { return same_key(known, row); });
    if (found == rows.end()) {
      rows.push_back(std::move(row));
    } else {
      found->predicted_s = row.predicted_s;
    }
  }
  return rows;
}

std::vector<ComparedTime> totals_of(const TimelineSummary& predicted, const TimelineSummary& measured) {
  std::vector<ComparedTime> rows;
  const auto add = [&](const char* name, double TimelineSummary::*total) {
    rows.push_back({name, predicted.*total, measured.*total});
  };
  add("chunk", &TimelineSummary::seconds);
  add("compute busy", &TimelineSummary::compute_busy);
  add("communication busy", &TimelineSummary::communication_busy);
  add("exposed communication", &TimelineSummary::exposed_communication);
  return rows;
}

std::vector<ComparedTime> periods_of(const TimelineSummary& predicted, const TimelineSummary& measured) {
  std::vector<ComparedTime> rows;
  for (std::size_t i = 0; i < std::min(measured.periods.size(), predicted.periods.size()); ++i)
    rows.push_back({"period", predicted.periods[i], measured.periods[i], "", static_cast<std::int32_t>(i) + 1});
  return rows;
}

void compare_kernels(TimelineComparison& result) {
  const TimelineSummary &predicted = result.predicted, &measured = result.measured;
  result.same_slots = measured.slots > 0 && measured.slots == predicted.slots;
  result.totals = totals_of(predicted, measured);
  result.classes = lined_up(predicted.classes, measured.classes, [](const TimelineSummary::ClassTime& c) {
    return ComparedTime{c.row, {}, c.seconds};
  });
  for (auto* rows : {&result.totals, &result.classes})
    for (ComparedTime& row : *rows) row.same_work = result.same_slots;
  if (!result.same_slots) return;
  result.phases = lined_up(predicted.phases, measured.phases, [](const TimelineSummary::Phase& p) {
    return ComparedTime{p.name, {}, p.end - p.start, "", p.slot};
  });
  result.periods = periods_of(predicted, measured);
  result.gemms = lined_up(predicted.gemms, measured.gemms, [](const TimelineSummary::Gemm& p) {
    return ComparedTime{p.name, {}, p.mean(), p.kind};
  });
}

}  // namespace

double OverlappedSlots::median_error() const {
  const std::size_t upper = errors.size() / 2, lower = (errors.size() - 1) / 2;
  return (errors[lower] + errors[upper]) / 2;
}

TimelineComparison compare(const Timeline& predicted, const Timeline& measured) {
  TimelineComparison result{summarize(predicted), summarize(measured)};
  if (!predicted.kernels.empty() && !measured.kernels.empty()) compare_kernels(result);
  result.overlapped = overlapped_slots(predicted, measured);
  return result;
}

std::vector<ComparedTime> grouped(const std::vector<ComparedTime>& rows,
                                  const std::map<std::string, std::string>& groups) {
  std::vector<ComparedTime> found;
  for (const ComparedTime& row : rows) {
    const auto group = groups.find(row.name);
    if (group == groups.end()) continue;
    auto at = std::ranges::find(found, group->second, &ComparedTime::name);
    if (at == found.end()) at = found.insert(found.end(), ComparedTime{group->second, 0, 0});
    *at->predicted_s += row.predicted_s.value_or(0);
    *at->measured_s += row.measured_s.value_or(0);
  }
  return found;
}

}  // namespace plumbline::model
