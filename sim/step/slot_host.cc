#include "sim/step/slot_host.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "sim/step/segment_memo.h"
#include "sim/step/slot_power.h"
#include "sim/step/template_run.h"

namespace plumbline::sim {

namespace {

using model::HostCalls;
using model::Stream;

constexpr double precision = 1e-9;  // of the slot's seconds
constexpr int most_runs = 64;

bool computes(const model::Segment& segment) {
  return segment.stream == Stream::compute || segment.stream == Stream::weight_gradient;
}

HostCalls calls_of(const model::StepProgram& program, const model::Segment& segment, const CostModels& costs) {
  const model::Graph& graph = program.blocks[segment.block];
  HostCalls calls;
  for (const std::uint16_t index : segment.operators)
    calls.add(costs.host.calls(graph, graph.operators[index], costs.kernels.launches(graph, graph.operators[index]),
                               segment.share));
  return calls;
}

// A layer counts once in each direction that the slot has, and once more forward where it is recomputed as a whole.
HostCalls layers_of(const model::StepProgram& program, const model::SlotTemplate& slot, const CostModels& costs) {
  std::set<std::tuple<bool, std::uint16_t, bool>> layers;
  for (const model::Segment& segment : slot.segments) {
    const model::Graph& graph = program.blocks[segment.block];
    layers.insert({segment.forward_side, segment.block_of_stage, segment.phase == model::Phase::F});
    for (const std::uint16_t index : segment.operators)
      if (graph.operators[index].replayed) layers.insert({segment.forward_side, segment.block_of_stage, true});
  }
  HostCalls calls;
  for (const auto& [side, block, forward] : layers) calls.add(costs.host.layer_calls(forward));
  return calls;
}

// Runs a slot whose launches are late.
class Delay {
 public:
  // `launches` are those of each segment on the compute streams.
  Delay(const model::SlotTemplate& slot, const CostModels& costs, const std::vector<SegmentTime>& times,
        std::vector<double> launches)
      : slot_(slot), costs_(costs), times_(times), launches_(std::move(launches)) {}

  double seconds(double per_launch) const {
    std::vector<SegmentTime> times = times_;
    for (std::size_t i = 0; i < times.size(); ++i)
      for (double& compute : times[i].compute) compute += per_launch * launches_[i];
    return run_template(slot_, times, costs_.partition.device_sms).seconds;
  }

  // Returns the delay with which the slot takes `goal` seconds. It takes longer the later launches are, but not by as
  // much where two streams overlap.
  double reaching(double goal, double start) const {
    double low = 0, high = start, reached = seconds(high);
    for (int runs = 0; reached < goal * (1 - precision) && runs < most_runs; ++runs) {
      low = std::exchange(high, 2 * high);
      reached = seconds(high);
    }
    for (int runs = 0; reached > goal * (1 + precision) && runs < most_runs; ++runs) {
      const double middle = (low + high) / 2, between = seconds(middle);
      (between < goal ? low : high) = middle;
      if (between >= goal) reached = between;
    }
    return high;
  }

 private:
  const model::SlotTemplate& slot_;
  const CostModels& costs_;
  const std::vector<SegmentTime>& times_;
  std::vector<double> launches_;
};

}  // namespace

double host_seconds(const model::StepProgram& program, const model::Segment& segment, const CostModels& costs,
                    const SlotHost& host) {
  return computes(segment) && host.late > 0 ? host.per_launch * calls_of(program, segment, costs).launches : 0;
}

void add_host(const model::StepProgram& program, const model::SlotTemplate& slot, const CostModels& costs,
              const SlotHost& host, std::vector<SegmentTime>& times) {
  if (host.late == 0) return;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const double longer = host_seconds(program, slot.segments[i], costs, host);
    for (double& compute : times[i].compute) compute += longer;
  }
}

SlotHost slot_host(const model::StepProgram& program, const model::SlotTemplate& slot, const CostModels& costs,
                   const std::vector<SegmentTime>& times) {
  if (!costs.host.launches()) return {};
  SlotHost host{.calls = costs.host.slot_calls()};
  host.calls.add(layers_of(program, slot, costs));
  std::vector<double> launches(times.size());
  double computing = 0;
  SegmentMemo<HostCalls> known;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const model::Segment& segment = slot.segments[i];
    const HostCalls& calls = known.find(segment, [&] { return calls_of(program, segment, costs); });
    host.calls.add(calls);
    if (computes(segment)) launches[i] = calls.launches;
    if (segment.stream == Stream::compute) computing += times[i].compute[0];
  }
  const double all = std::accumulate(launches.begin(), launches.end(), 0.0);
  const double issued = costs.host.issue(host.calls), idle = costs.host.idle(host.calls);
  if (all == 0 || (idle == 0 && issued <= computing)) return host;
  const Delay delay(slot, costs, times, std::move(launches));
  const double alone = delay.seconds(0), goal = std::max(alone, issued) + idle;
  if (!(alone < goal)) return host;
  host.per_launch = delay.reaching(goal, (goal - alone) / all);
  host.late = host.per_launch * all;
  return host;
}

std::vector<SegmentTime> segment_times(const model::StepProgram& program, const model::SlotTemplate& slot,
                                       const CostModels& costs) {
  std::vector<SegmentTime> times = SegmentTimer(program, costs).times(slot, slot_power(program, slot, costs).clock);
  add_host(program, slot, costs, slot_host(program, slot, costs, times), times);
  return times;
}

}  // namespace plumbline::sim
