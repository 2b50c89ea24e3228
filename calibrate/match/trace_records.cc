#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "calibrate/chunk/chunk.h"
#include "calibrate/match/trace_comparison.h"
#include "model/base/text.h"
#include "model/result/intervals.h"
#include "model/result/timeline_summary.h"

namespace plumbline::calibrate {
namespace {

using model::Interval;

// The samples of one operator: seconds by whether communication ran meanwhile.
struct Samples {
  const model::Kernel* kernel = nullptr;
  std::string name;
  std::vector<double> alone, overlapped;
};

// Returns when the communication of a trace ran, merged.
std::vector<Interval> transfers_of(const model::Timeline& measured) {
  std::vector<Interval> transfers;
  for (const model::Span& span : measured.spans)
    if (span.kernel >= 0 && model::is_communication(measured.kernels[static_cast<std::size_t>(span.kernel)].row))
      transfers.push_back({span.start_ps, span.end_ps()});
  return model::merged(std::move(transfers));
}

bool overlaps(const std::vector<Interval>& intervals, const model::Span& span) {
  const auto after = std::ranges::lower_bound(intervals, span.start_ps, std::ranges::less_equal(), &Interval::end_ps);
  return after != intervals.end() && after->start_ps < span.end_ps();
}

double percentile(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
}

Measurement record_of(const std::string& key, const Samples& samples, const std::string& device) {
  const model::Kernel& kernel = *samples.kernel;
  const auto words = model::split(key, '-');
  std::vector<double> seconds = samples.alone.empty() ? samples.overlapped : samples.alone;
  std::ranges::sort(seconds);
  Measurement m;
  m.source = "a trace of the PyTorch profiler, matched with a plan";
  m.device = device;
  m.op = words[0];
  m.name = samples.name;
  m.phase = words[1];
  m.format = words[2];
  m.case_line = key;
  constexpr std::array<const char*, 4> names = {"m", "n", "k", "groups"};
  for (std::size_t i = 0; i < names.size() && kernel.extents[0] > 0; ++i)
    m.shape.emplace_back(names[i], static_cast<std::int64_t>(std::ceil(kernel.extents[i])));
  m.variant = "in_step";
  m.communication_sms = 0;
  m.target_sms = 0;
  m.samples = static_cast<std::int64_t>(seconds.size());
  constexpr double low = 0.1, middle = 0.5, high = 0.9;
  m.time.p50 = percentile(seconds, middle);
  m.time.p10 = percentile(seconds, low);
  m.time.p90 = percentile(seconds, high);
  m.time.min = seconds.front();
  if (kernel.flops > 0) m.flops = kernel.flops;
  if (kernel.bytes > 0) m.bytes = kernel.bytes;
  return m;
}

}  // namespace

Measurements trace_records(const model::Timeline& measured, const TraceComparison& comparison,
                           const std::string& device, const std::string& path) {
  const model::Timeline& predicted = comparison.predicted;
  const std::vector<double> seconds = measured_seconds(comparison.match, predicted, measured);
  const std::vector<Interval> transfers = transfers_of(measured);
  std::vector<int> covers(measured.spans.size(), 0);  // predicted kernels that a measured one stands for
  for (const std::int32_t j : comparison.match.measured_of)
    if (j >= 0) ++covers[static_cast<std::size_t>(j)];
  std::map<std::string, Samples> operators;
  std::size_t fused = 0, exchanges = 0;
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    if (seconds[i] <= 0) continue;
    const model::Span& span = predicted.spans[i];
    const model::Kernel& kernel = predicted.kernels[static_cast<std::size_t>(span.kernel)];
    const auto own = static_cast<std::size_t>(comparison.match.measured_of[i]);
    const bool transfer = model::is_communication(kernel.row);
    if (transfer && kernel.row != "collective") {
      ++exchanges;
    } else if (covers[own] > 1) {
      ++fused;
    } else if (!kernel.key.empty()) {
      Samples& samples = operators[kernel.key];
      samples.kernel = &kernel;
      samples.name = predicted.names[span.name];
      (!transfer && overlaps(transfers, measured.spans[own]) ? samples.overlapped : samples.alone)
          .push_back(seconds[i]);
    }
  }
  Measurements found;
  found.path = path;
  std::size_t only_overlapped = 0;
  for (const auto& [key, samples] : operators) {
    found.values.push_back(record_of(key, samples, device));
    only_overlapped += samples.alone.empty() ? 1 : 0;
  }
  found.notes.push_back(
      fmt::format("{} operators of the plan have kernels of their own in the trace", operators.size()));
  const auto note = [&](std::size_t count, std::string_view what) {
    if (count > 0) found.notes.push_back(fmt::format("{} {}", count, what));
  };
  note(only_overlapped, "of them only while communication ran, whose times hold what it takes from them");
  note(fused, "kernels of the plan run within others in the trace, and give no record");
  note(exchanges, "parts of expert all-to-alls give no record, because they hold waits for other ranks");
  if (auto gap = launch_gap_record(measured, device)) found.values.push_back(std::move(*gap));
  return found;
}

}  // namespace plumbline::calibrate
