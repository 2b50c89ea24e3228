// What the lower bound of a step needs of each schedule, made once per shape.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "model/schedule/lower_bound.h"
#include "sim/predict/memos.h"

namespace plumbline::sim {

using model::ScheduleOutline;

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

}  // namespace plumbline::sim
