// One plan between its parts (sim/predict/cached_stages.h) and its estimate.
#pragma once

#include <cstdint>
#include <vector>

#include "model/plan/layout.h"
#include "model/plan/plan.h"
#include "model/profile/cluster.h"
#include "model/schedule/schedule_table.h"
#include "sim/predict/cached_stages.h"
#include "sim/predict/step_recurrence.h"

namespace plumbline::sim {

// Everything of one plan, until its estimate is made.
struct PlanWork {
  const model::Plan* plan = nullptr;
  model::Layout layout;
  const model::ScheduleKind* kind = nullptr;
  const model::ScheduleTable* table = nullptr;
  const CostModels* costs = nullptr;
  TimedStages* timed = nullptr;
  ShardedStages* sharded = nullptr;
  std::vector<std::int32_t> stage_kinds;            // [stage] of the library
  std::vector<std::int32_t> slots;                  // [slot class] of the library
  std::vector<const ShardedStages::State*> states;  // [rank]
  StepRecurrence step;
  StepWalk walk;
  bool alone = false;
};

struct StepEnds {
  double pipeline = 0, step = 0, exposed_reduce = 0, gather_wait = 0, slots = 0;
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

// In closed form; reduces: gradients are reduced in this step.
StepEnds run_step(PlanWork& work, bool reduces);
// `share` of the steps reduce.
StepEnds mean_of(const StepEnds& reducing, const StepEnds& local, double share);

// In all slots of rank 0, s.
double busy_first_rank(const PlanWork& work);
// Of the fullest rank.
double peak_bytes(const PlanWork& work, const model::Device& device);

}  // namespace plumbline::sim
