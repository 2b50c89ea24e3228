#include "sim/predict/attribution.h"

namespace plumbline::sim {

Attribution attribute(const model::StepProgram& program, const model::SlotTemplate& slot, const CostModels& costs,
                      double clock) {
  Attribution result;
  model::Conditions alone = costs.partition.overlapped(model::CoRunner::none);
  alone.clock = clock;
  for (const model::Segment& segment : slot.segments) {
    const model::Graph& graph = program.blocks[segment.block];
    for (std::uint16_t index : segment.operators) {
      const model::Operator& op = graph.operators[index];
      const model::OperatorClass kind = model::operator_class(graph, op);
      if (kind == model::OperatorClass::exchange) {
        const model::AllToAllTime time = costs.communication.all_to_all(graph, op);
        result.communication[time.share.index] += time.share.seconds;
        continue;
      }
      if (kind == model::OperatorClass::collective) {
        const model::Share share = costs.communication.collective_share(graph, op);
        result.communication[share.index] += share.seconds;
        continue;
      }
      if (kind == model::OperatorClass::host_link) {
        const model::Share share = costs.host.copy_share(graph, op);
        result.communication[share.index] += share.seconds;
        continue;
      }
      if (segment.stream == model::Stream::communication) continue;
      const model::KernelTime time = costs.kernels.time(graph, op, alone);
      result.classes[std::string(model::breakdown_name(kind))] += segment.share * time.seconds;
      for (const model::Share& share : time.shares)
        if (share.index >= 0) result.constants[share.index] += segment.share * share.seconds;
    }
  }
  return result;
}

}  // namespace plumbline::sim
