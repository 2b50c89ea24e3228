#include "sim/analysis/bound.h"

#include <algorithm>
#include <array>
#include <set>

#include "sim/predict/step_walk.h"
#include "sim/step/optimizer_timing.h"

namespace plumbline::sim {
namespace {

// Gives every op the mean of its kind over all ranks, so that the total work of all ranks stays the same.
std::vector<double> means_by_kind(const model::ScheduleTable& table, const std::vector<double>& class_seconds) {
  std::array<double, 5> sums{}, counts{};
  for (const model::ScheduleTable::Op& op : table.ops) {
    sums[static_cast<std::size_t>(op.type)] += class_seconds[op.slot_class];
    ++counts[static_cast<std::size_t>(op.type)];
  }
  std::vector<double> means;
  for (const model::ScheduleTable::SlotClass& one : table.classes) {
    const auto type = static_cast<std::size_t>(one.type);
    means.push_back(sums[type] / std::max(1.0, counts[type]));
  }
  return means;
}

double idle_in_recurrence(const model::ScheduleTable& table, const std::vector<double>& class_seconds, double p2p,
                          std::size_t rank) {
  double busy = 0, last = 0;
  model::run_table(
      table, p2p, [&](std::size_t i) { return class_seconds[table.ops[i].slot_class]; },
      [&](std::size_t i, double, double end) {
        last = std::max(last, end);
        if (table.ops[i].rank == rank) busy += class_seconds[table.ops[i].slot_class];
      });
  return last - busy;
}

void add_unit(Load& load, const UnitLoad& unit, double times) {
  const auto nic = static_cast<std::size_t>(Resource::data_parallel_nic);
  load.best[nic] += times * unit.best.network;
  load.best[nic + 1] += times * unit.best.node;
  load.taken[nic] += times * unit.taken.network;
  load.taken[nic + 1] += times * unit.taken.node;
}

// Sums up the work of a rank's queues; model/program/data_parallel.h has the rules for when each collective runs.
class RankLoader {
 public:
  RankLoader(const PlanWork& work, std::size_t rank) : work_(work), rank_(rank) {}

  Load run(bool serial_messages) {
    for (const auto& [slot_class, ops] : work_.counts->at(rank_))
      load_.add(work_.timed->load(work_.slots[slot_class]).load, static_cast<double>(ops));
    if (serial_messages) add_messages();
    add_reductions();
    add_gathers();
    add_end();
    return load_;
  }

 private:
  const model::ScheduleTable::SlotClass& stages(std::uint32_t slot_class) const {
    return work_.table->classes[slot_class];
  }
  const OptimizerLoad& optimizer(std::int32_t stage) const {
    return work_.sharded->optimizer_load(work_.stage_kinds[static_cast<std::size_t>(stage)]);
  }
  void add_units(const std::vector<UnitLoad>& units, double times) {
    for (const UnitLoad& unit : units) add_unit(load_, unit, times);
  }

  void add_messages() {
    double sends = 0;
    const auto leaves = [&](std::int32_t stage, std::int32_t next) {
      const model::Schedule& outline = work_.table->outline;
      const bool there = stage >= 0 && next >= 0 && next < outline.stages;
      return there && outline.rank_of(0, stage) != outline.rank_of(0, next) ? 1 : 0;
    };
    for (const auto& [slot_class, ops] : work_.counts->at(rank_)) {
      const model::ScheduleTable::SlotClass& one = stages(slot_class);
      const int gradients = one.type == model::OpType::W ? 0 : leaves(one.b_stage, one.b_stage - 1);
      sends += static_cast<double>(ops * (leaves(one.f_stage, one.f_stage + 1) + gradients));
    }
    const model::CommunicationCost& communication = work_.costs->communication;
    const model::Bytes message = work_.timed->stage_library().p2p();
    const auto resource =
        static_cast<std::size_t>(communication.p2p_crosses_nodes() ? Resource::message_nic : Resource::message_nvlink);
    load_.best[resource] += sends * communication.message_part(message).value() / communication.p2p_rate().value;
    load_.taken[resource] += sends * communication.p2p(message, 1);
  }

  void add_reductions() {
    const auto& parallelism = work_.plan->parallelism;
    const double share = 1 / static_cast<double>(parallelism.synchronization_interval);
    std::set<std::int32_t> seen;
    for (const auto& [slot_class, ops] : work_.counts->at(rank_)) {
      const std::int32_t stage = stages(slot_class).b_stage;
      if (stage < 0 || stages(slot_class).type == model::OpType::I) continue;
      const bool every_slot = parallelism.zero_stage >= 2;
      if (!every_slot && !seen.insert(stage).second) continue;
      add_units(optimizer(stage).reduce, every_slot ? share * static_cast<double>(ops) : share);
    }
  }

  void add_gathers() {
    if (work_.step.gathers_each)
      for (const auto& [stage, unit] : gathered_units(work_.step, rank_))
        add_unit(load_, optimizer(stage).gather[static_cast<std::size_t>(unit)], 1);
    if (!work_.step.gathers) return;
    std::set<std::int32_t> seen;
    for (const auto& [slot_class, ops] : work_.counts->at(rank_))
      if (const std::int32_t stage = stages(slot_class).f_stage; stage >= 0 && seen.insert(stage).second)
        add_units(optimizer(stage).gather, 1);
  }

  // Adds the work after the last slot.
  void add_end() {
    const bool gathers = work_.plan->parallelism.zero_stage < 3 && !work_.plan->overlap.parameter_gather;
    const auto host = static_cast<std::size_t>(Resource::optimizer_host);
    for (const std::int32_t stage : work_.table->ranks[rank_].stages) {
      const OptimizerTiming& timing =
          work_.sharded->optimizer_timing(work_.stage_kinds[static_cast<std::size_t>(stage)]);
      double copies = timing.to_device;
      for (const UnitTiming& unit : timing.units) copies += unit.copy;
      load_.best[host] += copies;
      load_.taken[host] += copies;
      if (gathers) add_units(optimizer(stage).gather, 1);
    }
  }

  const PlanWork& work_;
  std::size_t rank_;
  Load load_;
};

}  // namespace

IdleTime split_idle(const model::ScheduleTable& table, const std::vector<double>& class_seconds, double p2p,
                    std::size_t rank, double idle) {
  IdleTime result;
  result.fill_and_drain = idle;
  if (table.ranks.size() == 1 || idle <= 0) return result;
  const auto take = [&result](double seconds) {
    const double taken = std::clamp(seconds, 0.0, result.fill_and_drain);
    result.fill_and_drain -= taken;
    return taken;
  };
  const double without_p2p = idle_in_recurrence(table, class_seconds, 0, rank);
  result.point_to_point = take(idle_in_recurrence(table, class_seconds, p2p, rank) - without_p2p);
  result.uneven_stages = take(without_p2p - idle_in_recurrence(table, means_by_kind(table, class_seconds), 0, rank));
  return result;
}

std::vector<Load> rank_loads(const PlanWork& work, bool serial_messages) {
  std::vector<Load> loads;
  for (std::size_t rank = 0; rank < work.table->ranks.size(); ++rank)
    loads.push_back(RankLoader(work, rank).run(serial_messages));
  return loads;
}

double optimizer_at_best(const PlanWork& work, std::size_t rank) {
  double seconds = 0;
  for (const std::int32_t stage : work.table->ranks[rank].stages)
    seconds += work.sharded->optimizer_load(work.stage_kinds[static_cast<std::size_t>(stage)]).kernels_at_best;
  return seconds;
}

StepBound step_bound(const PlanWork& work, const std::vector<Load>& loads) {
  constexpr double rounding = 1e-12;  // rounding of sums in another order: the first of equal ranks counts
  StepBound bound;
  for (std::size_t rank = 0; rank < loads.size(); ++rank)
    for (std::size_t i = 0; i < resources; ++i) {
      const auto resource = static_cast<Resource>(i);
      const double optimizer = resource == Resource::compute ? optimizer_at_best(work, rank) : 0;
      const double seconds = loads[rank].at_best(resource) + optimizer;
      if (seconds > bound.seconds * (1 + rounding)) bound = {seconds, rank, resource};
    }
  return bound;
}

}  // namespace plumbline::sim
