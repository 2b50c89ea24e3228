#include "sim/step/slot_host.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "sim/step/slot_power.h"
#include "sim/step/template_run.h"

namespace plumbline::sim {

namespace {

using model::HostCalls;
using model::Stream;

constexpr double goal_rounding = 1e-9;  // of the slot's seconds
constexpr int most_runs = 64;
constexpr auto stream_count = static_cast<std::size_t>(Stream::optimizer) + 1;

bool computes(const model::Segment& segment) {
  return segment.stream == Stream::compute || segment.stream == Stream::weight_gradient;
}

std::vector<HostCalls> calls_of(const model::StepProgram& program, const model::Segment& segment,
                                const CostModels& costs) {
  const model::Graph& graph = program.blocks[segment.block];
  std::vector<HostCalls> calls;
  for (const std::uint16_t index : segment.operators) {
    const model::Operator& op = graph.operators[index];
    calls.push_back(costs.host.calls(graph, op, costs.kernels.launches(graph, op), segment.share));
  }
  return calls;
}

HostCalls sum(const std::vector<HostCalls>& calls) {
  HostCalls all;
  for (const HostCalls& one : calls) all.add(one);
  return all;
}

// What the layers of a slot ask of the host besides their operators, in the first segment of each. A layer counts once
// in each direction that the slot has, and once more forward where it is recomputed as a whole.
class LayerCalls {
 public:
  HostCalls begun_in(const model::Graph& graph, const model::Segment& segment, const model::HostCost& host) {
    HostCalls calls;
    const auto begin = [&](bool forward) {
      if (begun_.insert({segment.forward_side, segment.block_of_stage, forward}).second)
        calls.add(host.layer_calls(forward));
    };
    begin(segment.phase == model::Phase::F);
    for (const std::uint16_t index : segment.operators)
      if (graph.operators[index].replayed) begin(true);
    return calls;
  }

 private:
  std::set<std::tuple<bool, std::uint16_t, bool>> begun_;
};

struct IssuedSegment {
  HostCalls before;  // of layers that begin with it
  const std::vector<HostCalls>* operators;
};

// Follows host and GPU through the segments of a slot: a kernel begins when it is issued, its stream is free and what
// it waits for has ended.
class Issue {
 public:
  // `run` is that of the GPU alone.
  Issue(const model::StepProgram& program, const model::SlotTemplate& slot, const model::HostCost& host,
        const std::vector<SegmentTime>& times, const std::vector<IssuedSegment>& issued, const TemplateRun& run)
      : program_(program), slot_(slot), host_(host), times_(times), issued_(issued), run_(run) {}

  // Returns by how much later the slot ends than where everything is issued at its start. The host begins `ahead` of
  // the GPU by so many seconds, and is ahead by as many as are left there once it has issued the slot's messages.
  double late(double& ahead) {
    const double issued_at_once = end(-std::numeric_limits<double>::infinity());
    const double ended = end(-ahead);
    ahead = ended - now_ - host_.one_by_one(host_.slot_calls());
    return ended - issued_at_once;
  }

 private:
  // Returns when the last segment ends, the host having begun at that time.
  double end(double host_begin) {
    now_ = host_begin;
    chosen_.reset();
    ends_.assign(issued_.size(), 0);
    std::array<double, stream_count> free{};
    double last = 0;
    for (std::size_t i = 0; i < issued_.size(); ++i) {
      const model::Segment& segment = slot_.segments[i];
      double& stream_free = free[static_cast<std::size_t>(segment.stream)];
      double begin = stream_free;
      for (const std::uint16_t wait : segment.waits) begin = std::max(begin, ends_[wait]);
      now_ += host_.one_by_one(issued_[i].before);
      // What a graph has captured begins with the graph.
      if (issued_[i].before.launches > 0) begin = std::max(begin, now_);
      ends_[i] = stream_free = computes(segment) ? end_of_kernels(i, begin) : end_of_transfer(i, begin);
      last = std::max(last, ends_[i]);
    }
    return last;
  }

  double alone(std::size_t segment) const {
    return to_seconds(run_.segments[segment].end - run_.segments[segment].start);
  }

  double end_of_transfer(std::size_t segment, double begin) {
    for (const HostCalls& calls : *issued_[segment].operators) {
      const double issued = calls.synchronizations > 0 && !host_.blocks() ? dispatched(calls) : issue(calls);
      if (calls.launches > 0) begin = std::max(begin, issued);
    }
    const double at = begin + alone(segment);
    for (const HostCalls& calls : *issued_[segment].operators) block(at, calls);
    return at;
  }

  double issue(const HostCalls& calls) { return now_ += host_.one_by_one(calls); }

  // Returns when a dispatch is issued that waits for its counts.
  double dispatched(const HostCalls& calls) {
    const model::HostCost::Dispatching host = host_.dispatching(calls);
    now_ += host.before;
    wait(calls, host.counted);
    now_ += host.first;
    const double at = now_;
    now_ += host.others;
    return at;
  }

  // An operator of several kernels begins with the first that is issued, and ends no earlier than its last one.
  double end_of_kernels(std::size_t segment, double begin) {
    const std::vector<std::uint16_t>& operators = slot_.segments[segment].operators;
    const model::Graph& graph = program_.blocks[slot_.segments[segment].block];
    const std::vector<double>& seconds = times_[segment].kernels;
    const double sum_of_kernels = std::accumulate(seconds.begin(), seconds.end(), 0.0);
    const double stretch = sum_of_kernels > 0 ? alone(segment) / sum_of_kernels : 0;
    double at = begin;
    for (std::size_t k = 0; k < operators.size(); ++k) {
      const HostCalls& calls = (*issued_[segment].operators)[k];
      const model::OperatorKind kind = graph.operators[operators[k]].kind;
      const double needs = host_.one_by_one(calls), takes = stretch * seconds[k];
      // What limits the input of an activation is issued before the wait, copies sized by what arrived after it.
      const bool drains_after = kind == model::OperatorKind::clamp;
      if (!drains_after) drain(at, calls);
      if (calls.launches > 0) {
        // Without waits the host issues the second kernel while the first one runs.
        const double launches = host_.blocks() ? 1 : std::max(1.0, calls.launches);
        at = std::max(std::max(at, now_ + needs / launches) + takes, now_ + needs + takes / launches);
      } else {
        at += takes;
      }
      now_ += needs;
      block(at, calls);
      if (drains_after) drain(at, calls);
      if (kind == model::OperatorKind::router) chosen_ = at;
      wait(calls);
    }
    return at;
  }

  // What a router chose is there once its kernels have ended, or from before where it is not computed again, and
  // `counted` seconds later how many tokens each expert has.
  void wait(const HostCalls& calls, double counted = 0) {
    if (calls.synchronizations > 0 && chosen_ && !host_.blocks()) wait_until(*chosen_ + counted, calls);
  }

  void drain(double at, const HostCalls& calls) {
    if (calls.drains > 0 && !host_.blocks()) wait_until(at, calls);
  }

  // Where the host waits for each launch it waits for nothing else.
  void block(double at, const HostCalls& calls) {
    if (host_.blocks() && calls.launches > 0) wait_until(at, calls);
  }

  void wait_until(double at, const HostCalls& calls) {
    if (std::isfinite(now_)) now_ = std::max(now_, at) + host_.idle(calls);
  }

  const model::StepProgram& program_;
  const model::SlotTemplate& slot_;
  const model::HostCost& host_;
  const std::vector<SegmentTime>& times_;
  const std::vector<IssuedSegment>& issued_;
  const TemplateRun& run_;
  double now_ = 0;
  std::optional<double> chosen_;  // when the last router ended
  std::vector<double> ends_;      // of the segments
};

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
    for (int runs = 0; reached < goal * (1 - goal_rounding) && runs < most_runs; ++runs) {
      low = std::exchange(high, 2 * high);
      reached = seconds(high);
    }
    for (int runs = 0; reached > goal * (1 + goal_rounding) && runs < most_runs; ++runs) {
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
  return computes(segment) && host.late > 0 ? host.per_launch * sum(calls_of(program, segment, costs)).launches : 0;
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
                   const std::vector<SegmentTime>& times, SegmentCalls& calls) {
  if (!costs.host.launches()) return {};
  SlotHost host{.calls = costs.host.slot_calls()};
  const HostCalls at_message = host.calls;
  std::vector<double> launches(times.size());
  std::vector<IssuedSegment> issued(times.size());
  double computing = 0;
  LayerCalls layers;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const model::Segment& segment = slot.segments[i];
    issued[i] = {layers.begun_in(program.blocks[segment.block], segment, costs.host),
                 &calls.find(segment, [&] { return calls_of(program, segment, costs); })};
    const HostCalls own = sum(*issued[i].operators);
    host.calls.add(issued[i].before).add(own);
    if (computes(segment)) launches[i] = own.launches;
    if (segment.stream == Stream::compute) computing += times[i].compute[0];
  }
  const double all = std::accumulate(launches.begin(), launches.end(), 0.0), issuing = costs.host.issue(host.calls);
  const bool waits = costs.host.blocks() || host.calls.synchronizations + host.calls.drains > 0;
  if (all == 0 || (!waits && issuing <= computing)) return host;
  const Delay delay(slot, costs, times, std::move(launches));
  const TemplateRun alone = run_template(slot, times, costs.partition.device_sms);
  if (!std::isfinite(alone.seconds)) return host;
  double late = issuing - alone.seconds;
  if (waits) {
    double ahead = -costs.host.idle(at_message);
    Issue issue(program, slot, costs.host, times, issued, alone);
    late = issue.late(ahead);
    // The slot before it was like it. After a wait for its last launch none at a message is left. Where the host waits
    // for the messages, the slot lasts until they are issued.
    if (at_message.synchronizations == 0 || costs.host.blocks())
      late = issue.late(ahead);
    else
      late += std::max(0.0, -ahead);
  }
  if (!(late > 0)) return host;
  host.per_launch = delay.reaching(alone.seconds + late, late / all);
  host.late = host.per_launch * all;
  return host;
}

std::vector<SegmentTime> segment_times(const model::StepProgram& program, const model::SlotTemplate& slot,
                                       const CostModels& costs) {
  PowerWindows windows;
  SegmentCalls calls;
  const double clock = slot_power(program, slot, costs, windows).clock;
  std::vector<SegmentTime> times = SegmentTimer(program, costs).times(slot, clock);
  add_host(program, slot, costs, slot_host(program, slot, costs, times, calls), times);
  return times;
}

}  // namespace plumbline::sim
