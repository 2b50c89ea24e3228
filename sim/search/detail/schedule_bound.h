// A lower bound on a step from the ops that a schedule gives to each rank and what they take at least.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "model/schedule/schedule_table.h"
#include "sim/predict/schedule_tables.h"

namespace plumbline::sim {

// What of a schedule the bound asks for. As small as the schedule has distinct ops, however many micro-batches.
struct ScheduleOutline {
  struct Rank {
    std::vector<std::int32_t> stages;
    std::vector<std::pair<std::uint16_t, std::int64_t>> counts;  // slot class, ops
    bool weights = false;                                        // it runs weight gradients of their own
  };
  std::vector<model::ScheduleTable::SlotClass> classes;
  std::vector<Rank> ranks;
  std::vector<bool> hops;  // [stage]: the stage before it lies on another rank

  explicit ScheduleOutline(const model::ScheduleTable& table);
};

// Made when they are first asked for; safe from several threads.
class ScheduleOutlines {
 public:
  explicit ScheduleOutlines(std::shared_ptr<ScheduleTables> tables) : tables_(std::move(tables)) {}

  // nullptr where the schedule deadlocks.
  const ScheduleOutline* find(const model::ScheduleKind& kind, const model::ScheduleShape& shape);

 private:
  using Key = std::array<std::int64_t, 5>;
  std::shared_ptr<ScheduleTables> tables_;
  std::mutex mutex_;
  std::map<Key, std::unique_ptr<ScheduleOutline>> known_;
};

// As model::lower_bound (model/schedule/evaluate.h) over classes of ops: a rank waits for the shortest way from stage
// 0 to one of its stages, does all its work, and after its last op the shortest way of a gradient back to stage 0
// remains, unless that op can be a weight gradient. costs: seconds of each slot class; hop: of a message.
double schedule_bound(const ScheduleOutline& outline, const std::vector<double>& costs, double hop);

}  // namespace plumbline::sim
