// Remembers schedules made ready (model/schedule/schedule_table.h), so that plans that differ in other things build
// them once. A value that its owner hands to each evaluation; safe to use from several threads.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "model/base/error.h"
#include "model/schedule/schedule_table.h"
#include "sim/predict/memo.h"

namespace plumbline::sim {

class ScheduleTables {
 public:
  // Infeasible when the schedule deadlocks.
  using Table = model::Result<std::shared_ptr<const model::ScheduleTable>>;
  Table find(const model::ScheduleKind& kind, const model::ScheduleShape& shape);

  using Key = std::array<std::int64_t, 5>;
  static Key key_of(const model::ScheduleKind& kind, const model::ScheduleShape& shape);

 private:
  // Tables with more ops than this in all are forgotten, but by those who hold them.
  static constexpr std::size_t most_ops = 50'000'000;
  Memo<Key, Table> known_;
  std::atomic<std::size_t> ops_ = 0;
};

}  // namespace plumbline::sim
