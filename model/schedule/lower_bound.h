// A lower bound on a step from the ops that a schedule gives to each rank and what they take at least: no order of
// these ops on their ranks ends earlier. Each rank waits for the shortest way from stage 0 to one of its stages, does
// all its work, and after its last op the shortest way of a gradient back to stage 0 remains, unless that op can be a
// weight gradient; and a micro-batch passes all stages forth and back.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "model/schedule/chunk_costs.h"
#include "model/schedule/schedule_table.h"

namespace plumbline::model {

// What the bound needs of a schedule: as small as its distinct ops, however many micro-batches there are.
struct ScheduleOutline {
  using Counts = std::vector<std::pair<std::uint16_t, std::int64_t>>;  // slot class, ops

  std::vector<ScheduleTable::SlotClass> classes;
  std::vector<Counts> ranks;
  std::vector<bool> transfers;  // [stage]: the stage before it lies on another rank

  explicit ScheduleOutline(const ScheduleTable& table);
};

// costs: of each slot class, all of whose ops take the same; hop: of a message. Any one unit of time.
double lower_bound(const ScheduleOutline& outline, const std::vector<double>& costs, double transfer);

// The ops of a class may differ by micro-batch. The schedule must not deadlock.
double lower_bound(const Schedule& schedule, const ChunkCosts& costs);

}  // namespace plumbline::model
