#include "sim/step/kernel_slot.h"

#include <algorithm>
#include <cmath>

#include "sim/step/slot_host.h"
#include "sim/step/slot_power.h"

namespace plumbline::sim {

namespace {

using model::Segment;

int launches(const model::Graph& graph, const model::Operator& op, double share) {
  if (op.kind != model::OperatorKind::grouped_matmul || op.phase != model::Phase::W) return 1;
  return std::max(1, static_cast<int>(std::lround(share * model::KernelCost::kernels(graph, op))));
}

}  // namespace

KernelSlot take_apart(const model::StepProgram& program, const model::SlotTemplate& slot, const CostModels& costs) {
  KernelSlot result;
  std::vector<std::uint16_t> last_kernel;  // of each segment of the template
  const double clock = slot_power(program, slot, costs).clock;
  const SlotHost host = slot_host(program, slot, costs, SegmentTimer(program, costs).times(slot, clock));
  const auto append = [&](Segment kernel, std::size_t origin) {
    result.times.push_back(segment_time(program.blocks[kernel.block], kernel, costs, clock));
    for (double& compute : result.times.back().compute) compute += host_seconds(program, kernel, costs, host);
    result.segments.push_back(std::move(kernel));
    result.origins.push_back(static_cast<std::uint16_t>(origin));
  };
  for (std::size_t i = 0; i < slot.segments.size(); ++i) {
    Segment segment = slot.segments[i];
    for (std::uint16_t& wait : segment.waits) wait = last_kernel[wait];
    if (segment.stream == model::Stream::communication || segment.stream == model::Stream::collective) {
      append(segment, i);
    } else {
      const model::Graph& graph = program.blocks[segment.block];
      for (const std::uint16_t op : slot.segments[i].operators) {
        const int count = launches(graph, graph.operators[op], segment.share);
        for (int k = 0; k < count; ++k) {
          Segment kernel = segment;
          kernel.operators = {op};
          kernel.share = segment.share / count;
          append(std::move(kernel), i);
          segment.waits.clear();  // stream order keeps the other kernels behind the first
        }
      }
    }
    last_kernel.push_back(static_cast<std::uint16_t>(result.segments.size() - 1));
  }
  return result;
}

}  // namespace plumbline::sim
