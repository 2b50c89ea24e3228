#include "sim/analysis/bound.h"

#include <algorithm>
#include <set>
#include <variant>

namespace plumbline::sim {

namespace {

using model::OperatorClass;
using Links = model::ExchangeCost::LinkSeconds;

bool on_host(const model::Operator& op) {
  const auto* attributes = std::get_if<model::AdamwAttributes>(&op.attributes);
  return attributes != nullptr && attributes->on_host;
}

struct UnitLoad {  // of its collectives, s
  Links best, taken;
};
struct StageUnits {
  std::vector<UnitLoad> reduce, gather;  // [unit]
};

// Casts of a unit run on the stream of its collectives; they are nobody's link.
UnitLoad unit_load(const model::Graph& graph, const std::vector<std::uint16_t>& operators, const CostModels& costs) {
  UnitLoad load;
  for (const std::uint16_t index : operators) {
    const model::Operator& op = graph.operators[index];
    if (model::operator_class(graph, op) != OperatorClass::collective) continue;
    const Links best = costs.exchanges.collective_at_best(graph, op);
    const double seconds = costs.exchanges.collective(graph, op);
    load.best.network += best.network;
    load.best.node += best.node;
    (best.network > 0 ? load.taken.network : load.taken.node) += seconds;
  }
  return load;
}

void add_synchronisation(Load& load, const UnitLoad& unit, double share) {
  const auto nic = static_cast<std::size_t>(Resource::synchronisation_nic);
  load.best[nic] += share * unit.best.network;
  load.best[nic + 1] += share * unit.best.node;
  load.taken[nic] += share * unit.taken.network;
  load.taken[nic + 1] += share * unit.taken.node;
}

std::vector<StageUnits> stage_units(const model::StepProgram& program, const CostModels& costs) {
  std::vector<StageUnits> stages(program.stages.size());
  for (std::size_t stage = 0; stage < stages.size(); ++stage)
    for (const model::SynchronisationUnit& unit : program.stage_units[stage]) {
      stages[stage].reduce.push_back(unit_load(program.stage_optimizers[stage], unit.reduce, costs));
      stages[stage].gather.push_back(unit_load(program.stage_optimizers[stage], unit.gather, costs));
    }
  return stages;
}

void add_synchronisations(Load& load, const model::StepProgram& program, std::size_t rank,
                          const std::vector<StageUnits>& units, double reduce_share) {
  if (program.synchronisations.empty()) return;
  for (const model::Synchronisation& s : program.synchronisations[rank]) {
    const StageUnits& stage = units[static_cast<std::size_t>(s.stage)];
    const bool reduces = s.kind == model::Synchronisation::Kind::reduce;
    add_synchronisation(load, (reduces ? stage.reduce : stage.gather)[static_cast<std::size_t>(s.unit)],
                        reduces ? reduce_share : 1);
  }
}

// What follows the last slot.
void add_end(Load& load, const OptimizerTiming& timing, const StageUnits& units, bool gathers) {
  double copies = timing.to_device;
  for (const UnitTiming& unit : timing.units) copies += unit.copy;
  const auto host = static_cast<std::size_t>(Resource::optimizer_host);
  load.best[host] += copies;
  load.taken[host] += copies;
  if (!gathers) return;
  for (const UnitLoad& unit : units.gather) add_synchronisation(load, unit, 1);
}

void add_messages(Load& load, const model::StepProgram& program, std::size_t rank, const CostModels& costs) {
  double sends = 0;
  for (const auto& batch : program.batches[rank])
    sends += static_cast<double>(std::ranges::count_if(batch, [](const model::Hop& hop) { return hop.send; }));
  const auto resource =
      static_cast<std::size_t>(costs.exchanges.hops_cross_nodes() ? Resource::message_nic : Resource::message_nvlink);
  load.best[resource] += sends * program.activation_hop.value() / costs.exchanges.hop_rate().value;
  load.taken[resource] += sends * costs.exchanges.hop(program.activation_hop, 1);
}

}  // namespace

std::vector<Load> rank_loads(const model::StepProgram& program, const std::vector<Load>& templates,
                             const CostModels& costs, const std::vector<OptimizerTiming>& timings, double reduce_share,
                             bool serial_messages) {
  const std::vector<StageUnits> units = stage_units(program, costs);
  const auto stages = stages_of(program.schedule);
  std::vector<Load> loads(program.slot_templates.size());
  for (std::size_t rank = 0; rank < loads.size(); ++rank) {
    Load& load = loads[rank];
    for (const std::uint16_t slot : program.slot_templates[rank]) load += templates[slot];
    if (serial_messages) add_messages(load, program, rank, costs);
    add_synchronisations(load, program, rank, units, reduce_share);
    for (const std::int32_t stage : stages[rank]) {
      const auto index = static_cast<std::size_t>(stage);
      add_end(load, timings[index], units[index], program.gather_after_update);
    }
  }
  return loads;
}

double optimizer_at_best(const model::StepProgram& program, std::size_t rank, const CostModels& costs) {
  double seconds = 0;
  const auto stages = stages_of(program.schedule);
  for (const std::int32_t stage : stages[rank]) {
    const model::Graph& graph = program.stage_optimizers[static_cast<std::size_t>(stage)];
    std::set<std::uint16_t> beside;  // runs with the collectives
    for (const model::SynchronisationUnit& unit : program.stage_units[static_cast<std::size_t>(stage)])
      for (const auto* part : {&unit.reduce, &unit.gather, &unit.copy}) beside.insert(part->begin(), part->end());
    for (std::uint16_t i = 0; i < graph.operators.size(); ++i) {
      const model::Operator& op = graph.operators[i];
      const OperatorClass kind = model::operator_class(graph, op);
      const bool kernel = kind != OperatorClass::collective && kind != OperatorClass::host_link && !on_host(op);
      if (kernel && !beside.contains(i)) seconds += costs.kernels.best(graph, op);
    }
  }
  return seconds;
}

StepBound step_bound(const std::vector<Load>& loads, const std::vector<double>& optimizers) {
  StepBound bound;
  for (std::size_t rank = 0; rank < loads.size(); ++rank)
    for (std::size_t i = 0; i < resources; ++i) {
      const auto resource = static_cast<Resource>(i);
      const double seconds = loads[rank].at_best(resource) + (resource == Resource::compute ? optimizers[rank] : 0);
      if (seconds > bound.seconds) bound = {seconds, rank, resource};
    }
  return bound;
}

}  // namespace plumbline::sim
