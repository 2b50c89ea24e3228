#include "sim/predict/attribution.h"

#include "model/cost/work.h"

namespace plumbline::sim {

namespace {

double peak_seconds(const model::Graph& graph, const model::Operator& op, const model::Device& device) {
  const double work = model::flops(graph, op, 1, true).value();
  if (work == 0) return 0;
  const bool fp8 = model::is_fp8(graph.tensor(op.reads[0]).type) && device.fp8_peak.value() > 0;
  return work / (fp8 ? device.fp8_peak : device.bf16_peak).value();
}

}  // namespace

Attribution attribute(const model::StepProgram& program, const model::SlotTemplate& slot, const CostModels& costs,
                      const model::Device& device) {
  Attribution result;
  for (const model::Segment& segment : slot.segments) {
    const model::Graph& graph = program.blocks[segment.block];
    for (std::uint16_t index : segment.operators) {
      const model::Operator& op = graph.operators[index];
      result.flop_seconds += segment.share * peak_seconds(graph, op, device);
      const model::OperatorClass kind = model::operator_class(graph, op);
      if (kind == model::OperatorClass::exchange) {
        const model::ExchangeTime time = costs.exchanges.exchange(graph, op);
        result.exchanges[time.share.index] += time.share.seconds;
        continue;
      }
      if (kind == model::OperatorClass::collective) {
        const model::Share share = costs.exchanges.collective_share(graph, op);
        result.exchanges[share.index] += share.seconds;
        continue;
      }
      if (kind == model::OperatorClass::host_link) {
        const model::Share share = costs.host.copy_share(graph, op);
        result.exchanges[share.index] += share.seconds;
        continue;
      }
      if (segment.stream == model::Stream::communication) continue;
      const model::KernelTime time = costs.kernels.time(graph, op, costs.partition.beside(model::Neighbour::none));
      result.classes[std::string(model::breakdown_name(kind))] += segment.share * time.seconds;
      for (const model::Share& share : time.shares)
        if (share.index >= 0) result.constants[share.index] += segment.share * share.seconds;
    }
  }
  return result;
}

}  // namespace plumbline::sim
