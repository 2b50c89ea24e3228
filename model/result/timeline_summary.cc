#include "model/result/timeline_summary.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

namespace plumbline::model {

std::vector<Interval> merged(std::vector<Interval> intervals) {
  std::ranges::sort(intervals, {}, &Interval::start_ps);
  std::vector<Interval> result;
  for (const Interval& interval : intervals) {
    if (interval.end_ps <= interval.start_ps) continue;
    if (result.empty() || interval.start_ps > result.back().end_ps) {
      result.push_back(interval);
    } else {
      result.back().end_ps = std::max(result.back().end_ps, interval.end_ps);
    }
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
    collector.add(span, timeline.kernels[static_cast<std::size_t>(span.kernel)]);
  }
  summary.seconds = seconds_of(timeline.end_ps - first);
  std::ranges::stable_sort(summary.phases, {}, &TimelineSummary::Phase::start);
  summary.periods = periods_of(summary);
  collector.finish(summary);
  return summary;
}

}  // namespace plumbline::model
