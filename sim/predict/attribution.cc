#include "sim/predict/attribution.h"

#include <algorithm>

namespace plumbline::sim {
namespace {

// Late launches rest on what the host takes to issue all of them, and on its waits for the GPU.
void attribute_host(const SlotHost& host, const model::HostCost& costs, Attribution& result) {
  if (host.late == 0) return;
  result.classes["host"] += host.late;
  const auto add = [&](const model::Share& share, double factor) {
    if (share.index >= 0) result.constants[share.index] += factor * share.seconds;
  };
  const double waited = costs.idle(host.calls), issued = costs.issue(host.calls);
  const double idle = issued > 0 ? std::min(host.late, waited) : host.late;
  if (waited > 0) add(costs.idle_share(host.calls), idle / waited);
  if (issued == 0) return;
  for (const model::Share& share : costs.issue_shares(host.calls)) add(share, (host.late - idle) / issued);
}

}  // namespace

Attribution attribute(const model::StepProgram& program, const model::SlotTemplate& slot, const CostModels& costs,
                      double clock, const SlotHost& host) {
  Attribution result;
  attribute_host(host, costs.host, result);
  model::Conditions alone = costs.partition.overlapped(model::CoRunner::none);
  alone.clock = clock;
  const auto add_transfer = [&](const model::Share& share) { result.communication[share.index] += share.seconds; };
  for (const model::Segment& segment : slot.segments) {
    const model::Graph& graph = program.blocks[segment.block];
    for (std::uint16_t index : segment.operators) {
      const model::Operator& op = graph.operators[index];
      const model::OperatorClass kind = model::operator_class(graph, op);
      if (kind == model::OperatorClass::exchange) {
        add_transfer(costs.communication.all_to_all(graph, op).share);
      } else if (kind == model::OperatorClass::collective) {
        add_transfer(costs.communication.collective_share(graph, op));
      } else if (kind == model::OperatorClass::host_link) {
        add_transfer(costs.host.copy_share(graph, op));
      } else if (segment.stream != model::Stream::communication) {
        const model::KernelTime time = costs.kernels.time(graph, op, alone);
        result.classes[std::string(model::breakdown_name(kind))] += segment.share * time.seconds;
        for (const model::Share& share : time.shares)
          if (share.index >= 0) result.constants[share.index] += segment.share * share.seconds;
      }
    }
  }
  return result;
}

}  // namespace plumbline::sim
