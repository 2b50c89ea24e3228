// The parts of one plan (sim/predict/cached_stages.h) and the functions that turn them into an estimate.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "model/plan/layout.h"
#include "model/profile/cluster.h"
#include "sim/predict/cached_stages.h"
#include "sim/predict/memos.h"
#include "sim/predict/simulation.h"
#include "sim/predict/step_walk.h"
#include "sim/step/step_executor.h"

namespace plumbline::model {
struct Plan;
}  // namespace plumbline::model

namespace plumbline::sim {

// The parts and intermediate results of one plan.
struct PlanWork {
  const model::Plan* plan = nullptr;
  model::Layout layout;
  const model::ScheduleKind* kind = nullptr;
  std::shared_ptr<const PreparedSchedule> schedule;
  const model::ScheduleTable* table = nullptr;                          // of the schedule
  const std::vector<model::ScheduleOutline::Counts>* counts = nullptr;  // of its outline, by rank
  const CostModels* costs = nullptr;
  TimedStages* timed = nullptr;
  ShardedStages* sharded = nullptr;
  std::vector<std::int32_t> stage_kinds;              // [stage], in the library
  std::vector<std::int32_t> slots;                    // [slot class], in the library
  std::vector<const ShardedStages::State*> states;    // [rank]
  std::vector<const ShardedStages::Update*> updates;  // [rank]
  StepRecurrence step;
  StepWalk walk;
};

// Turns plan, table, times and sharding into the recurrence's slots; time_slots() finds their runs and collectives.
void time_slots(PlanWork& work);
void prepare_step(PlanWork& work);
// Sets the seconds of messages between ranks.
void fill_costs(PlanWork& work);

// A search calls the following before it times every slot. find_slots() finds the slots without their durations.
// most_collective_seconds() returns the seconds of collectives that no plan can avoid, on the rank with most of them.
// slots_by_weight() returns the distinct slots, the one with most seconds in all first; `seconds` is by slot class.
void find_slots(PlanWork& work);
double most_collective_seconds(const PlanWork& work);
std::vector<std::int32_t> slots_by_weight(const PlanWork& work, const std::vector<double>& seconds);

// Returns the plan's slots in the library, each once, by first use, which is the order of model::assemble()'s
// templates.
std::vector<std::int32_t> distinct_slots(const PlanWork& work);

// Runs one step in closed form. reduces: gradients are reduced in it. tail: fills Execution::tail.
Execution run_step(PlanWork& work, bool reduces, bool tail);

// Returns the peak of the fullest rank.
Peak peak_of(const PlanWork& work, const model::Device& device);
// The same without slots, which need not be found, and without what the allocator holds: at most the peak.
Peak least_peak_of(const PlanWork& work, const model::Device& device);

}  // namespace plumbline::sim
