// One plan between its parts (sim/predict/cached_stages.h) and its estimate.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "model/plan/layout.h"
#include "model/plan/plan.h"
#include "model/profile/cluster.h"
#include "model/schedule/schedule_table.h"
#include "sim/predict/cached_stages.h"
#include "sim/predict/step_recurrence.h"
#include "sim/step/step_executor.h"

namespace plumbline::sim {

// [rank]: how many ops it has of each slot class, by class.
using SlotCounts = std::vector<std::vector<std::pair<std::uint16_t, std::int64_t>>>;
SlotCounts slot_counts(const model::ScheduleTable& table);

// Everything of one plan, until its estimate is made.
struct PlanWork {
  const model::Plan* plan = nullptr;
  model::Layout layout;
  const model::ScheduleKind* kind = nullptr;
  const model::ScheduleTable* table = nullptr;
  const SlotCounts* counts = nullptr;  // of the table
  const CostModels* costs = nullptr;
  TimedStages* timed = nullptr;
  ShardedStages* sharded = nullptr;
  std::vector<std::int32_t> stage_kinds;              // [stage] of the library
  std::vector<std::int32_t> slots;                    // [slot class] of the library
  std::vector<const ShardedStages::State*> states;    // [rank]
  std::vector<const ShardedStages::Update*> updates;  // [rank]
  StepRecurrence step;
  StepWalk walk;
  bool alone = false;
};

// From plan, table, times and sharding to the recurrence's slots.
void time_slots(PlanWork& work);
void prepare_step(PlanWork& work);
// Messages between ranks, and waits for parameters.
void fill_costs(PlanWork& work);

// What a search asks before it times everything: slots without their durations; the seconds that the rank with most of
// them spends in collectives that no plan can avoid; distinct slots, the one with most seconds in all ([slot class])
// first.
void find_slots(PlanWork& work);
double most_collective_seconds(const PlanWork& work);
std::vector<std::int32_t> slots_by_weight(const PlanWork& work, const std::vector<double>& seconds);

// The plan's slots of the library, each once, in the order of their first uses: that of model::assemble()'s templates.
std::vector<std::int32_t> distinct_slots(const PlanWork& work);

// One step in closed form; reduces: gradients are reduced in it. tail: Execution::tail is asked for.
Execution run_step(PlanWork& work, bool reduces, bool tail);

// Of the fullest rank.
double peak_bytes(const PlanWork& work, const model::Device& device);

}  // namespace plumbline::sim
