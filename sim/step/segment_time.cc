#include "sim/step/segment_time.h"

#include <algorithm>
#include <variant>

#include "model/program/compile.h"

namespace plumbline::sim {
namespace {

using model::Conditions;
using model::CoRunner;
using model::OperatorClass;

// Time is linear in the rows but for the steps of GEMM waves. The slope is taken between the expected rows and twice as
// many: the wider the span, the less one wave matters.
constexpr double more_rows = 2;

// The mean remaining time of a running kernel when another starts to wait for its SMs: half its duration, with kernels
// weighted by the chance that they are running. Kernels with many CTAs free SMs continuously and count as 0.
class MeanRest {
 public:
  void add(double seconds, int launches, bool persistent) {
    total_ += seconds;
    if (persistent) rest_ += seconds * seconds / (2 * launches);
  }
  double value() const { return total_ > 0 ? rest_ / total_ : 0; }

 private:
  double total_ = 0, rest_ = 0;
};

// Returns the seconds of a kernel of any kind. Attention may wait for keys and values.
double kernel_seconds(const model::Graph& graph, const model::Operator& op, const Conditions& conditions,
                      const CostModels& costs) {
  const double seconds = costs.kernels.time(graph, op, conditions).seconds;
  const bool attends = model::operator_class(graph, op) == OperatorClass::attention;
  return attends ? costs.communication.ring_attention(graph, op, seconds) : seconds;
}

SegmentTime compute_segment(const model::Graph& graph, const model::Segment& segment, const CostModels& costs,
                            double clock, Rows rows) {
  SegmentTime time;
  MeanRest rest;
  for (std::uint16_t index : segment.operators) {
    const model::Operator& op = graph.operators[index];
    const bool persistent = is_gemm(model::operator_class(graph, op));
    const bool varies = rows == Rows::varying && model::varies_with_rows(graph, op);
    for (std::size_t state = 0; state < communication_states; ++state) {
      Conditions conditions = costs.partition.overlapped(static_cast<CoRunner>(state));
      conditions.clock = clock;
      const double part =
          conditions.co_runner == CoRunner::collective ? segment.share * costs.compute_slowdown : segment.share;
      const double expected = part * kernel_seconds(graph, op, conditions, costs);
      conditions.row_scale = more_rows;
      const double more = varies ? part * kernel_seconds(graph, op, conditions, costs) : expected;
      time.compute[state] += expected;
      time.compute_per_row[state] += (more - expected) / (more_rows - 1);
      if (persistent) time.width[state] = conditions.sms;
      if (state == 0) {
        time.kernels.push_back(expected);
        rest.add(expected, costs.kernels.kernels(graph, op), persistent);
      }
    }
  }
  time.drain = rest.value();
  return time;
}

// Casts on the communication stream get only the SMs that a concurrent GEMM leaves.
SegmentTime communication_segment(const model::Graph& graph, const model::Segment& segment, const CostModels& costs) {
  SegmentTime time;
  const std::int64_t width = costs.partition.launch_width(CoRunner::none);
  const Conditions during_compute{
      .sms = costs.partition.device_sms,
      .held = std::min(width, costs.partition.device_sms - costs.partition.communication_sms),
      .co_runner = CoRunner::computing};
  for (std::uint16_t index : segment.operators) {
    const model::Operator& op = graph.operators[index];
    if (model::operator_class(graph, op) != OperatorClass::exchange) {
      time.prepare += operator_seconds(graph, op, segment.stream, costs);
      time.prepare_overlapped += costs.kernels.time(graph, op, during_compute).seconds;
      continue;
    }
    const model::AllToAllTime all_to_all = costs.communication.all_to_all(graph, op);
    time.wait_measured = all_to_all.measured;
    time.prepare += all_to_all.prepare;
    time.prepare_overlapped += all_to_all.prepare;
    time.notify += all_to_all.notify;
    // A leg cannot be faster than the most loaded link of the group.
    const double on_links = costs.links ? std::max(all_to_all.network_bytes * costs.links->network_seconds_per_byte(),
                                                   all_to_all.node_bytes * costs.links->node_seconds_per_byte())
                                        : 0;
    time.transfer += std::max(all_to_all.alone, on_links);
    time.transfer_overlapped += std::max(all_to_all.overlapped, on_links);
    time.network += all_to_all.network;
    time.network_overlapped += all_to_all.network_overlapped;
    time.node += all_to_all.node;
    time.network_bytes += all_to_all.network_bytes;
    time.node_bytes += all_to_all.node_bytes;
  }
  if (time.transfer > 0) time.held = costs.partition.communication_sms;
  return time;
}

// Returns the time of transfers that run one after the other.
template <class Seconds>
SegmentTime transfer_segment(const model::Graph& graph, const model::Segment& segment, const Seconds& seconds) {
  SegmentTime time;
  for (const std::uint16_t index : segment.operators) {
    time.kernels.push_back(seconds(graph.operators[index]));
    time.transfer += time.kernels.back();
  }
  return time;
}

SegmentTime collective_segment(const model::Graph& graph, const model::Segment& segment, const CostModels& costs) {
  SegmentTime time = transfer_segment(
      graph, segment, [&](const model::Operator& op) { return collective_seconds(graph, segment, op, costs); });
  const WireLoad load = wire_load(graph, segment.operators, costs);
  time.group = load.group;
  time.network_bytes = segment.share * load.network_bytes;
  time.node_bytes = segment.share * load.node_bytes;
  return time;
}

}  // namespace

double operator_seconds(const model::Graph& graph, const model::Operator& op, model::Stream stream,
                        const CostModels& costs) {
  if (stream == model::Stream::compute)
    return kernel_seconds(graph, op, costs.partition.overlapped(CoRunner::none), costs);
  return costs.kernels.time(graph, op, {.sms = costs.partition.device_sms}).seconds;
}

double collective_seconds(const model::Graph& graph, const model::Segment& segment, const model::Operator& op,
                          const CostModels& costs) {
  const double seconds = segment.share * costs.communication.collective(graph, op);
  const auto& group = std::get<model::CollectiveAttributes>(op.attributes);
  if (group.ranks == 1 || group.ranks != costs.sequences.ranks || group.stride != 1) return seconds;
  const bool gathers = op.kind == model::OperatorKind::all_gather;
  if (!gathers && op.kind != model::OperatorKind::reduce_scatter) return seconds;
  const model::Tensor& all = graph.tensor(gathers ? op.writes[0] : op.reads[0]);
  const auto& sequences = costs.sequences;
  const double reduced = model::sums_input_gradient(op) ? sequences.gradients : sequences.reduced;
  const double whole = gathers ? sequences.gathered : reduced;
  const double last_piece = !gathers && segment.ends ? sequences.added : 0;
  const double passes = segment.share < 1 ? last_piece : whole;
  // Rows of experts have no sequences.
  if (passes == 0 || all.shape[0].extent != model::Extent::tokens) return seconds;
  return seconds + costs.kernels.moving(all.bytes() * passes, costs.partition.overlapped(CoRunner::none));
}

SegmentTime segment_time(const model::Graph& graph, const model::Segment& segment, const CostModels& costs,
                         double clock, Rows rows) {
  if (segment.stream == model::Stream::communication) return communication_segment(graph, segment, costs);
  if (segment.stream == model::Stream::collective) return collective_segment(graph, segment, costs);
  if (model::on_host_link(segment.stream))
    return transfer_segment(graph, segment, [&](const model::Operator& op) { return costs.host.copy(graph, op); });
  return compute_segment(graph, segment, costs, clock, rows);
}

std::vector<SegmentTime> SegmentTimer::times(const model::SlotTemplate& slot, double clock) {
  std::vector<SegmentTime> times;
  times.reserve(slot.segments.size());
  for (const model::Segment& segment : slot.segments) times.push_back(time(segment, clock));
  return times;
}

const SegmentTime& SegmentTimer::time(const model::Segment& segment, double clock) {
  std::map<double, SegmentTime>& by_clock = known_.find(segment, [] { return std::map<double, SegmentTime>(); });
  const auto [known, fresh] = by_clock.try_emplace(clock);
  if (fresh) known->second = segment_time(program_.blocks[segment.block], segment, costs_, clock);
  return known->second;
}

}  // namespace plumbline::sim
