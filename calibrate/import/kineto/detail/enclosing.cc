#include "calibrate/import/kineto/detail/enclosing.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

namespace plumbline::calibrate {
namespace {

// Returns the ranges of the operations that `wanted` accepts; their values are indices into trace.operations.
template <class Wanted>
std::vector<Range> operation_ranges(const Trace& trace, const Wanted& wanted) {
  std::vector<Range> ranges;
  for (std::size_t i = 0; i < trace.operations.size(); ++i) {
    const Operation& operation = trace.operations[i];
    if (wanted(operation)) ranges.push_back({operation.start_ns, operation.end_ns, operation.thread, i});
  }
  return ranges;
}

// Whether an operation is of a backward: "MulBackward0", "torch::autograd::AccumulateGrad".
bool of_backward(const std::string& name) {
  return name.starts_with("torch::autograd::") || name.find("Backward") != std::string::npos;
}

}  // namespace

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

std::vector<Recorded> recorded_operations(const Trace& trace, const std::vector<std::size_t>& work) {
  const std::vector<Moment> launched = launch_moments(trace, work);
  const auto evaluates = [&](const Operation& o) { return trace.names.text(o.name).starts_with(evaluate_prefix); };
  const auto around = [&](const auto& wanted) {
    return innermost(operation_ranges(trace, wanted), launched, work.size());
  };
  const std::vector<std::size_t> operations = around([](const Operation& o) { return o.sequence >= 0; });
  const std::vector<std::size_t> evaluations = around(evaluates);
  std::vector<Recorded> recorded(work.size());
  for (std::size_t i = 0; i < work.size(); ++i) {
    recorded[i] = {operations[i], evaluations[i]};
    if (operations[i] == no_range) continue;
    const Operation& operation = trace.operations[operations[i]];
    recorded[i].forward = !evaluates(operation) && !of_backward(trace.names.text(operation.name));
  }
  return recorded;
}

}  // namespace plumbline::calibrate
