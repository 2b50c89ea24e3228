// A step by events of a plan whose parts are known already (sim/predict/cached_stages.h): the step program that
// model::compile() makes is put together of them, and run as simulate(.., Fidelity::step) runs it.
#pragma once

#include <cstdint>
#include <vector>

#include "model/plan/layout.h"
#include "model/plan/plan.h"
#include "model/schedule/schedule_table.h"
#include "model/schedule/transfers.h"
#include "sim/predict/cached_stages.h"
#include "sim/step/step_executor.h"

namespace plumbline::sim {

struct Timetable {  // of a schedule
  model::Schedule schedule;
  std::vector<std::vector<std::vector<model::Hop>>> batches;
};
Timetable make_timetable(const model::ScheduleKind& kind, const model::ScheduleShape& shape);

struct EventStep {  // all must outlive it
  const model::Plan& plan;
  const model::ScheduleTable& table;
  const Timetable& timetable;
  const CostModels& costs;
  TimedStages& timed;
  ShardedStages& sharded;
  const std::vector<std::int32_t>& stage_kinds;  // [stage] of the library
  const std::vector<std::int32_t>& slots;        // [slot class] of the library
};

// synchronise: gradients are reduced in this step. Errors: those of execute().
model::Result<Execution> run_by_events(const EventStep& step, bool synchronise);

}  // namespace plumbline::sim
