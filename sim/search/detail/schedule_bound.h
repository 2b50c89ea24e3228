// What the lower bound of a step needs of each schedule, made once per shape.
#pragma once

#include <memory>
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
  std::shared_ptr<ScheduleTables> tables_;
  model::Memo<ScheduleTables::Key, std::shared_ptr<const ScheduleOutline>> known_;
};

}  // namespace plumbline::sim
