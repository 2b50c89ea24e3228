#include "model/result/comparison.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include "model/base/statistics.h"
#include "model/memory/memory.h"
#include "model/plan/plan_fields.h"

namespace plumbline::model {
namespace {

// Returns whether a key changes the executed work; others set constants, speeds, search ranges or the cost of the run.
bool executed(std::string_view key) {
  return key != "cluster.profile" && key != "cluster.speed_deviation" && !key.starts_with("stack.") &&
         !key.starts_with("run.") && !key.starts_with("campaign.") && !key.starts_with("inference.") &&
         !key.starts_with("rollout.") && !key.starts_with("search.");
}

template <class T>
std::string text_of(const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    return value;
  } else if constexpr (std::is_same_v<T, Precision>) {
    return std::string(to_string(value));
  } else if constexpr (std::is_same_v<T, ConfigValue>) {
    return std::visit([](const auto& alternative) { return text_of(alternative); }, value);
  } else if constexpr (std::is_same_v<T, StageLayers>) {
    return value.counts.empty() ? (value.even ? "even" : "balanced") : text_of(value.counts);
  } else if constexpr (std::is_same_v<T, AcceptanceShares>) {
    return text_of(value.shares);
  } else {
    return nlohmann::json(value).dump();
  }
}

template <class T>
std::string text_of(const std::optional<T>& value) {
  return value ? text_of(*value) : "null";
}

// Returns keys and values that change the executed work. The model is its name, as a stored result has another file.
std::map<std::string, std::string> executed_keys(Plan plan) {
  plan.model.config = model_name(plan);
  std::map<std::string, std::string> keys;
  visit_fields(plan, [&keys](std::string_view key, const auto& field) {
    if (executed(key)) keys[std::string(key)] = text_of(field);
  });
  return keys;
}

std::vector<ResultComparison::PlanDifference> plan_differences(const Plan& predicted, const Plan& measured) {
  const auto first = executed_keys(predicted), second = executed_keys(measured);
  auto all = first;
  all.insert(second.begin(), second.end());
  const auto value = [](const std::map<std::string, std::string>& keys, const std::string& key) {
    const auto found = keys.find(key);
    return found == keys.end() ? "not given" : found->second;
  };
  std::vector<ResultComparison::PlanDifference> differences;
  for (const auto& [key, unused] : all)
    if (value(first, key) != value(second, key)) differences.push_back({key, value(first, key), value(second, key)});
  return differences;
}

std::optional<OverlappedPairs::Prediction> prediction(const Timeline& predicted, const Timeline& measured,
                                                      const std::map<std::string, std::string>& classes) {
  auto slots = compare(predicted, measured).overlapped;
  if (!slots) return std::nullopt;
  auto rows = grouped(slots->kernels, classes);
  return OverlappedPairs::Prediction{std::move(*slots), std::move(rows)};
}

// Returns nothing where a timeline is missing or has no pairs.
std::optional<OverlappedPairs> overlapped_pairs(const ComparisonSubject& predicted, const ComparisonSubject& measured) {
  auto own = prediction(predicted.timeline, measured.timeline, predicted.operator_classes);
  if (!own) return std::nullopt;
  OverlappedPairs pairs{std::move(*own), predicted.baseline, std::nullopt};
  if (!predicted.baseline.empty())
    pairs.by_baseline = prediction(predicted.baseline_timeline, measured.timeline, predicted.operator_classes);
  return pairs;
}

ResultComparison::MeasuredPair pair_of(const std::vector<ComparisonSubject>& subjects, std::size_t from, std::size_t to,
                                       WaterfallDetail detail) {
  const std::size_t predicted = subjects[from].measured() ? to : from, measured = from + to - predicted;
  const ComparisonSubject &first = subjects[predicted], &second = subjects[measured];
  return {predicted, measured, prediction_error(first.result->step, second.result->step, detail),
          plan_differences(first.plan, second.plan), overlapped_pairs(first, second)};
}

double trained_tokens(const StepResult& result) {
  const auto& rollout = result.rollout;
  return std::round(rollout ? rollout->tokens_per_s * rollout->step_s : result.step.tokens_per_s * result.step.time_s);
}

Waterfall waterfall_of(const ComparisonSubject& from, const ComparisonSubject& to, WaterfallDetail detail) {
  if (from.serving && to.serving) return waterfall(*from.serving, *to.serving);
  if (from.result->rollout && to.result->rollout) return waterfall(*from.result->rollout, *to.result->rollout);
  return waterfall(from.result->step, to.result->step, detail);
}

}  // namespace

std::string ComparisonSubject::reason() const {
  return result ? infeasible_reason(*result) : reason_of(result.error());
}

ResultComparison compare_results(std::vector<ComparisonSubject> subjects, Against against, WaterfallDetail detail) {
  ResultComparison comparison{std::move(subjects), {}, {}, against, true};
  std::optional<std::size_t> from;
  std::optional<double> tokens;
  for (std::size_t i = 0; i < comparison.subjects.size(); ++i) {
    const auto& result = comparison.subjects[i].result;
    if (!result) continue;
    const double own = trained_tokens(*result);
    if (tokens.value_or(own) != own) comparison.same_tokens = false;
    tokens = own;
    if (from) {
      comparison.differences.push_back(
          {*from, i, waterfall_of(comparison.subjects[*from], comparison.subjects[i], detail)});
      if (comparison.subjects[*from].measured() != comparison.subjects[i].measured())
        comparison.measured.push_back(pair_of(comparison.subjects, *from, i, detail));
    }
    if (!from || against == Against::previous) from = i;
  }
  return comparison;
}

bool ResultComparison::deployments() const {
  return std::ranges::any_of(subjects, [](const ComparisonSubject& one) { return one.serving.has_value(); });
}

bool ResultComparison::rollouts() const {
  return std::ranges::any_of(subjects, [](const ComparisonSubject& one) { return one.result && one.result->rollout; });
}

const ResultComparison::MeasuredPair* measured_pair(const ResultComparison& comparison,
                                                    const ResultComparison::Difference& difference) {
  for (const ResultComparison::MeasuredPair& pair : comparison.measured)
    if (std::minmax(pair.predicted, pair.measured) == std::minmax(difference.from, difference.to)) return &pair;
  return nullptr;
}

std::vector<Interval> merged(std::vector<Interval> intervals) {
  std::ranges::sort(intervals, {}, &Interval::start_ps);
  std::vector<Interval> result;
  for (const Interval& interval : intervals) {
    if (interval.end_ps <= interval.start_ps) continue;
    if (result.empty() || interval.start_ps > result.back().end_ps)
      result.push_back(interval);
    else
      result.back().end_ps = std::max(result.back().end_ps, interval.end_ps);
  }
  return result;
}

double covered(const std::vector<Interval>& intervals) {
  std::int64_t sum = 0;
  for (const Interval& interval : merged(intervals)) sum += interval.end_ps - interval.start_ps;
  return static_cast<double>(sum) * 1e-12;
}

double covered_without(const std::vector<Interval>& these, const std::vector<Interval>& those) {
  std::vector<Interval> both = these;
  both.insert(both.end(), those.begin(), those.end());
  return covered(both) - covered(those);
}

namespace {

using Gemm = TimelineSummary::Gemm;

double seconds_of(std::int64_t ps) { return static_cast<double>(ps) * 1e-12; }

// The tens of tiny kernels that select the experts are one operator of the prediction, but elementwise kernels and
// copies in a profiler's trace. assemble_heads is half copy, half elementwise. So one row holds them all.
std::string row_of(const Kernel& kernel, Stream stream) {
  constexpr std::string_view joined = "elementwise, copy, router";
  const std::string& own = kernel.row;
  const std::string row(own == "elementwise" || own == "copy" || own == "router" ? joined : std::string_view(own));
  return stream != Stream::communication || is_communication(own) ? row : row + ", communication stream";
}

class SpanCollector {
 public:
  void add(const Span& span, const Kernel& kernel) {
    const Interval when = {span.start_ps, span.end_ps() + kernel.gap_ps};
    (span.stream == Stream::communication ? communication_ : compute_).push_back(when);
    rows_[row_of(kernel, span.stream)].push_back(when);
    if (kernel.gemm.empty() || span.layer_pair < 0) return;
    gemms_[{kernel.gemm, kernel.gemm_kind, span.layer_pair}].push_back(when);
    const auto same = [&](const Gemm& p) { return p.name == kernel.gemm && p.kind == kernel.gemm_kind; };
    if (std::ranges::none_of(order_, same)) order_.push_back({kernel.gemm, kernel.gemm_kind, {}});
  }

  void finish(TimelineSummary& summary) {
    summary.compute_busy = covered(compute_);
    summary.communication_busy = covered(communication_);
    summary.exposed_communication = covered_without(communication_, compute_);
    for (const auto& [row, intervals] : rows_) summary.classes.push_back({row, covered(intervals)});
    std::ranges::stable_sort(summary.classes, std::greater<>{}, &TimelineSummary::ClassTime::seconds);
    for (Gemm& gemm : order_) {
      for (std::int32_t slot = 0; slot < summary.slots; ++slot) {
        const auto found = gemms_.find({gemm.name, gemm.kind, slot});
        if (found != gemms_.end()) gemm.slots.push_back(covered(found->second));
      }
      summary.gemms.push_back(std::move(gemm));
    }
  }

 private:
  std::vector<Interval> compute_, communication_;
  std::map<std::string, std::vector<Interval>> rows_;
  std::map<std::tuple<std::string, std::string, std::int32_t>, std::vector<Interval>> gemms_;
  std::vector<Gemm> order_;
};

std::vector<double> periods_of(const TimelineSummary& summary) {
  std::vector<std::optional<double>> ends(static_cast<std::size_t>(summary.slots));
  for (const TimelineSummary::Phase& phase : summary.phases)
    if (phase.name == "attn(B)" && phase.slot < summary.slots)
      ends.at(static_cast<std::size_t>(phase.slot)) = phase.end;
  std::vector<double> periods;
  for (std::size_t slot = 1; slot < ends.size(); ++slot) {
    if (!ends[slot] || !ends[slot - 1]) return {};
    periods.push_back(*ends[slot] - *ends[slot - 1]);
  }
  return periods;
}

}  // namespace

bool is_communication(std::string_view row) {
  constexpr std::array<std::string_view, 5> rows = {"dispatch", "combine", "notify", "layout", "collective"};
  return std::ranges::find(rows, row) != rows.end();
}

double Gemm::mean() const {
  return std::accumulate(slots.begin(), slots.end(), 0.0) / static_cast<double>(std::max<std::size_t>(1, slots.size()));
}

TimelineSummary summarize(const Timeline& timeline) {
  TimelineSummary summary;
  if (timeline.kernels.empty()) return summary;
  summary.slots = timeline.layer_pairs;
  SpanCollector collector;
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for (const Span& span : timeline.spans) {
    if (span.depth == phase_depth)
      summary.phases.push_back(
          {timeline.names[span.name], span.layer_pair, seconds_of(span.start_ps), seconds_of(span.end_ps())});
    if (span.kernel < 0) continue;
    first = std::min(first, span.start_ps);
    if (on_host_link(span.stream)) continue;  // copy engines run these, no SMs
    collector.add(span, timeline.kernel_of(span));
  }
  summary.seconds = seconds_of(timeline.end_ps - first);
  std::ranges::stable_sort(summary.phases, {}, &TimelineSummary::Phase::start);
  summary.periods = periods_of(summary);
  collector.finish(summary);
  return summary;
}

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
    if (found == rows.end())
      rows.push_back(std::move(row));
    else
      found->predicted_s = row.predicted_s;
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

double OverlappedSlots::median_error() const { return quantile(errors, 0.5); }

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

void TimelineWriter::add(Span place, const std::string& name, std::uint8_t depth, std::int64_t start_ps,
                         std::int64_t end_ps) {
  const auto [entry, fresh] = names_.try_emplace(name, static_cast<std::uint32_t>(timeline_.names.size()));
  if (fresh) timeline_.names.push_back(name);
  place.name = entry->second;
  place.depth = depth;
  place.start_ps = start_ps;
  place.duration_ps = end_ps - start_ps;
  timeline_.end_ps = std::max(timeline_.end_ps, end_ps);
  timeline_.ranks = std::max(timeline_.ranks, place.rank + 1);
  timeline_.spans.push_back(place);
}

void TimelineWriter::add(Span place, const std::string& name, Kernel kernel, std::int64_t start_ps,
                         std::int64_t end_ps) {
  place.kernel = keep(std::move(kernel));
  add(place, name, kernel_depth, start_ps, end_ps);
}

std::int32_t TimelineWriter::keep(Kernel kernel) {
  timeline_.kernels.push_back(std::move(kernel));
  return static_cast<std::int32_t>(timeline_.kernels.size()) - 1;
}

Timeline TimelineWriter::finish() {
  std::ranges::stable_sort(timeline_.spans, {},
                           [](const Span& s) { return std::make_tuple(s.rank, s.stream, s.depth, s.start_ps); });
  return std::move(timeline_);
}

}  // namespace plumbline::model
