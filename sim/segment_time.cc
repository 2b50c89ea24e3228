#include "sim/segment_time.h"

#include <algorithm>

namespace plumbline::sim {

namespace {

using model::KernelTime;
using model::OperatorClass;

bool crosses_ranks(const model::Graph& graph, const model::Operator& op) {
  return model::operator_class(graph, op) == OperatorClass::exchange;
}

// Time depends on the rows linearly but for wave steps. The slope is taken over twice the rows: the wider
// the span, the less one wave more or less matters.
constexpr double more_rows = 2;

SegmentTime compute_segment(const model::Graph& graph, const model::Segment& segment, const CostModels& costs,
                            std::int64_t sms) {
  SegmentTime time;
  for (std::uint16_t index : segment.operators) {
    const model::Operator& op = graph.operators[index];
    const KernelTime expected = costs.kernels.time(graph, op, {sms, 1.0});
    const KernelTime more = costs.kernels.time(graph, op, {sms, more_rows});
    time.kernels.push_back(segment.share * expected.alone);
    time.alone += segment.share * expected.alone;
    time.beside += segment.share * expected.beside;
    time.alone_per_row += segment.share * (more.alone - expected.alone);
    time.beside_per_row += segment.share * (more.beside - expected.beside);
  }
  return time;
}

// Casts on the communication stream have only that stream's SMs while compute runs beside them.
SegmentTime communication_segment(const model::Graph& graph, const model::Segment& segment, const CostModels& costs,
                                  std::int64_t sms) {
  SegmentTime time;
  for (std::uint16_t index : segment.operators) {
    const model::Operator& op = graph.operators[index];
    if (!crosses_ranks(graph, op)) {
      time.prepare += costs.kernels.time(graph, op, {sms, 1.0}).alone;
      continue;
    }
    const model::ExchangeTime exchange = costs.exchanges.exchange(graph, op);
    time.prepare += exchange.prepare;
    time.notify += exchange.notify;
    time.alone += exchange.alone;
    time.beside += exchange.beside;
  }
  return time;
}

}  // namespace

std::int64_t compute_sms(const model::SlotTemplate& slot, const CostModels& costs) {
  const bool pair = slot.type == model::OpType::FB;
  return costs.device_sms - (pair ? costs.communication_sms : 0);
}

std::vector<SegmentTime> segment_times(const model::StepProgram& program, const model::SlotTemplate& slot,
                                       const CostModels& costs) {
  const std::int64_t sms = compute_sms(slot, costs);
  const std::int64_t communication_sms =
      slot.type == model::OpType::FB && costs.communication_sms > 0 ? costs.communication_sms : costs.device_sms;
  std::vector<SegmentTime> times;
  times.reserve(slot.segments.size());
  for (const model::Segment& segment : slot.segments) {
    const model::Graph& graph = program.blocks[segment.block];
    times.push_back(segment.stream == model::Stream::communication
                        ? communication_segment(graph, segment, costs, communication_sms)
                        : compute_segment(graph, segment, costs, sms));
  }
  return times;
}

}  // namespace plumbline::sim
