#include "sim/step/optimizer_timing.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <variant>

#include "sim/step/detail/gpu_groups.h"
#include "sim/step/segment_time.h"

namespace plumbline::sim {

namespace {

using model::OperatorClass;
using model::OperatorKind;

bool on_host(const model::Operator& op) {
  const auto* attributes = std::get_if<model::AdamwAttributes>(&op.attributes);
  return attributes != nullptr && attributes->on_host;
}

class OptimizerTimer {
 public:
  OptimizerTimer(const model::Graph& graph, const CostModels& costs)
      : graph_(graph), costs_(costs), counted_(graph.operators.size(), false) {}

  OptimizerTiming run(const std::vector<model::ShardUnit>& units) {
    for (const model::ShardUnit& unit : units)
      timing_.units.push_back({.reduce = sum(unit.reduce),
                               .gather = sum(unit.gather),
                               .copy = sum(unit.copy),
                               .local = local(unit.reduce),
                               .reduce_load = wire_load(graph_, unit.reduce, costs_),
                               .gather_load = wire_load(graph_, unit.gather, costs_),
                               .local_load = wire_load(graph_, sums_of_shards(unit.reduce), costs_),
                               .reducers = collective_ranks(graph_, unit.reduce),
                               .local_reducers = collective_ranks(graph_, sums_of_shards(unit.reduce)),
                               .gatherers = collective_ranks(graph_, unit.gather)});
    for (std::size_t i = 0; i < graph_.operators.size(); ++i)
      if (!counted_[i]) add(graph_.operators[i]);
    const double kernels = timing_.check + timing_.update - timing_.host_update;
    timing_.update += std::max(0.0, costs_.host.issue(calls_) - kernels);
    timing_.step = costs_.host.step();
    return timing_;
  }

 private:
  double seconds(const model::Operator& op) {
    switch (model::operator_class(graph_, op)) {
      case model::OperatorClass::collective:
        return costs_.communication.collective(graph_, op);
      case model::OperatorClass::host_link:
        return costs_.host.copy(graph_, op);
      default:
        if (on_host(op)) return costs_.host.update(graph_, op);
        timing_.joules += joules(op);
        return operator_seconds(graph_, op, model::Stream::optimizer, costs_);
    }
  }

  double joules(const model::Operator& op) const {
    if (!costs_.power) return 0;
    const model::KernelTime time = costs_.kernels.time(graph_, op, {.sms = costs_.partition.device_sms});
    return costs_.power->state(costs_.power->window(graph_, op, time)).joules;
  }

  double sum(const std::vector<std::uint16_t>& operators) {
    double total = 0;
    for (const std::uint16_t index : operators) {
      counted_[index] = true;
      total += seconds(graph_.operators[index]);
    }
    return total;
  }

  // Returns the operators of a reduction without the sums of shards over replicas. Without shards there are none.
  std::vector<std::uint16_t> sums_of_shards(const std::vector<std::uint16_t>& reduce) const {
    std::vector<std::uint16_t> operators;
    bool sharded = false, scattered = false;  // any, just before
    for (const std::uint16_t index : reduce) {
      const OperatorKind kind = graph_.operators[index].kind;
      if (!(scattered && kind == OperatorKind::all_reduce)) operators.push_back(index);
      scattered = kind == OperatorKind::reduce_scatter;
      sharded = sharded || scattered;
    }
    if (!sharded) operators.clear();
    return operators;
  }

  double local(const std::vector<std::uint16_t>& reduce) {
    double total = 0;
    for (const std::uint16_t index : sums_of_shards(reduce)) total += seconds(graph_.operators[index]);
    return total;
  }

  void add(const model::Operator& op) {
    const OperatorClass kind = model::operator_class(graph_, op);
    const bool kernel = kind != OperatorClass::collective && kind != OperatorClass::host_link;
    if (kernel && !on_host(op)) calls_.add(costs_.host.calls(graph_, op, costs_.kernels.launches(graph_, op), 1));
    switch (op.kind) {
      case OperatorKind::adamw:
      case OperatorKind::cast_transpose:
        timing_.update += seconds(op);
        if (on_host(op)) timing_.host_update += seconds(op);
        return;
      case OperatorKind::copy_to_device:
        timing_.to_device += seconds(op);
        return;
      case OperatorKind::copy_to_host:
        timing_.average += seconds(op);
        return;
      case OperatorKind::all_reduce:
        timing_.agree += seconds(op);
        return;
      default:
        timing_.check += seconds(op);
    }
  }

  const model::Graph& graph_;
  const CostModels& costs_;
  std::vector<bool> counted_;
  model::HostCalls calls_;  // of kernels
  OptimizerTiming timing_;
};

// Casts of a unit run on the stream of its collectives but load no link.
UnitLoad unit_load(const model::Graph& graph, const std::vector<std::uint16_t>& operators, const CostModels& costs) {
  UnitLoad load;
  for (const std::uint16_t index : operators) {
    const model::Operator& op = graph.operators[index];
    if (model::operator_class(graph, op) != OperatorClass::collective) continue;
    const model::CommunicationCost::LinkSeconds best = costs.communication.collective_at_best(graph, op);
    load.best.network += best.network;
    load.best.node += best.node;
    (best.network > 0 ? load.taken.network : load.taken.node) += costs.communication.collective(graph, op);
  }
  return load;
}

}  // namespace

OptimizerTiming optimizer_timing(const model::Graph& optimizer, const std::vector<model::ShardUnit>& units,
                                 const CostModels& costs) {
  return OptimizerTimer(optimizer, costs).run(units);
}

OptimizerLoad optimizer_load(const model::StageOptimizer& optimizer, const CostModels& costs) {
  const model::Graph& graph = optimizer.graph;
  OptimizerLoad load;
  std::set<std::uint16_t> with_collectives;  // operators of the units
  for (const model::ShardUnit& unit : optimizer.units) {
    load.reduce.push_back(unit_load(graph, unit.reduce, costs));
    load.gather.push_back(unit_load(graph, unit.gather, costs));
    for (const auto* part : {&unit.reduce, &unit.gather, &unit.copy})
      with_collectives.insert(part->begin(), part->end());
  }
  for (std::uint16_t i = 0; i < graph.operators.size(); ++i) {
    const model::Operator& op = graph.operators[i];
    const OperatorClass kind = model::operator_class(graph, op);
    const bool kernel = kind != OperatorClass::collective && kind != OperatorClass::host_link && !on_host(op);
    if (kernel && !with_collectives.contains(i)) load.kernels_at_best += costs.kernels.best(graph, op);
  }
  return load;
}

}  // namespace plumbline::sim
