#include "calibrate/import/kineto/detail/enclosing.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace plumbline::calibrate {

// Sweeps over ranges and moments, track by track, with a stack of open ranges.
std::vector<std::size_t> innermost(std::vector<Range> ranges, std::vector<Moment> moments, std::size_t askers) {
  std::ranges::stable_sort(ranges, [](const Range& a, const Range& b) {
    return std::tuple(a.track, a.start_ns, -a.end_ns) < std::tuple(b.track, b.start_ns, -b.end_ns);
  });
  std::ranges::stable_sort(moments, {}, [](const Moment& m) { return std::pair(m.track, m.time_ns); });
  std::vector<std::size_t> values(askers, no_range);
  std::vector<const Range*> open;
  std::size_t next = 0;
  for (const Moment& moment : moments) {
    const auto place = std::pair(moment.track, moment.time_ns);
    while (next < ranges.size() && std::pair(ranges[next].track, ranges[next].start_ns) <= place)
      open.push_back(&ranges[next++]);
    while (!open.empty() && (open.back()->track != moment.track || open.back()->end_ns < moment.time_ns))
      open.pop_back();
    if (!open.empty()) values[moment.asker] = open.back()->value;
  }
  return values;
}

std::vector<Moment> launch_moments(const Trace& trace, const std::vector<std::size_t>& work) {
  std::vector<const LaunchCall*> calls;
  for (const LaunchCall& call : trace.launches) calls.push_back(&call);
  std::ranges::stable_sort(calls, {}, [](const LaunchCall* call) { return call->correlation; });
  std::vector<Moment> moments;
  for (std::size_t i = 0; i < work.size(); ++i) {
    const std::int64_t correlation = trace.work[work[i]].correlation;
    const auto call =
        std::ranges::lower_bound(calls, correlation, {}, [](const LaunchCall* c) { return c->correlation; });
    if (correlation != 0 && call != calls.end() && (*call)->correlation == correlation)
      moments.push_back({(*call)->thread, (*call)->start_ns, i});
  }
  return moments;
}

std::vector<Moment> start_moments(const Trace& trace, const std::vector<std::size_t>& work) {
  std::vector<Moment> moments;
  for (std::size_t i = 0; i < work.size(); ++i) {
    const GpuWork& piece = trace.work[work[i]];
    moments.push_back({stream_track(piece.device, piece.stream), piece.start_ns, i});
  }
  return moments;
}

std::int64_t stream_track(int device, int stream) {
  constexpr int bits = 32;
  return static_cast<std::int64_t>((static_cast<std::uint64_t>(device) << bits) | static_cast<std::uint32_t>(stream));
}

}  // namespace plumbline::calibrate
