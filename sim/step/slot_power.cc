#include "sim/step/slot_power.h"

#include <cmath>

namespace plumbline::sim {

namespace {

using model::OperatorClass;

// Clocks are rounded down to this, so that slots with the same mix of kernels share the times of their segments.
constexpr double clock_step = 1e-6;

bool runs_kernel(OperatorClass kind) {
  return kind != OperatorClass::exchange && kind != OperatorClass::collective && kind != OperatorClass::host_link;
}

// Casts on the communication stream overlap the kernels of the others: they add energy and no time.
model::PowerWindow window_of(const model::Graph& graph, const model::Segment& segment, const CostModels& costs) {
  model::PowerWindow window;
  const model::Conditions alone = costs.partition.overlapped(model::CoRunner::none);
  for (const std::uint16_t index : segment.operators) {
    const model::Operator& op = graph.operators[index];
    if (!runs_kernel(model::operator_class(graph, op))) continue;
    window.add(costs.power->window(graph, op, costs.kernels.time(graph, op, alone)), segment.share);
  }
  if (segment.stream == model::Stream::communication) window.sm_seconds = window.other_seconds = 0;
  return window;
}

}  // namespace

SlotPower slot_power(const model::StepProgram& program, const model::SlotTemplate& slot, const CostModels& costs,
                     PowerWindows& windows) {
  if (!costs.power) return {};
  model::PowerWindow window;
  for (const model::Segment& segment : slot.segments)
    window.add(windows.find(segment, [&] { return window_of(program.blocks[segment.block], segment, costs); }));
  // The slowest GPU draws the power of the others, for longer: the clock and the energy are those of the mean.
  window.sm_seconds /= costs.kernels.slowdown();
  window.other_seconds /= costs.kernels.slowdown();
  const model::PowerModel::State state = costs.power->state(window);
  const double clock = state.clock == 1 ? 1 : std::floor(state.clock / clock_step) * clock_step;
  return {clock, state.joules};
}

}  // namespace plumbline::sim
