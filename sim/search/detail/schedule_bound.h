// The outlines of schedules that lower bounds need, made once per shape.
#pragma once

#include <memory>
#include <utility>

#include "model/schedule/evaluate.h"
#include "sim/predict/memos.h"

namespace plumbline::sim {

using model::ScheduleOutline;

// Makes outlines on first use; safe from several threads.
class ScheduleOutlines {
 public:
  explicit ScheduleOutlines(std::shared_ptr<ScheduleTables> tables) : tables_(std::move(tables)) {}

  // Returns nullptr where the schedule deadlocks.
  const ScheduleOutline* find(const model::ScheduleKind& kind, const model::ScheduleShape& shape);

 private:
  std::shared_ptr<ScheduleTables> tables_;
  model::Memo<ScheduleTables::Key, std::shared_ptr<const ScheduleOutline>> known_;
};

}  // namespace plumbline::sim
