// Remembers schedules made ready (model/schedule/schedule_table.h), so that plans that differ in other things build
// them once. A value that its owner hands to each evaluation; safe to use from several threads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "model/base/error.h"
#include "model/schedule/schedule_table.h"

namespace plumbline::sim {

class ScheduleTables {
 public:
  // Infeasible when the schedule deadlocks.
  model::Result<std::shared_ptr<const model::ScheduleTable>> find(const model::ScheduleKind& kind,
                                                                  const model::ScheduleShape& shape);

 private:
  // Tables with more ops than this in all are forgotten, but by those who hold them.
  static constexpr std::size_t most_ops = 50'000'000;
  using Key = std::array<std::int64_t, 5>;  // kind and shape
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<const model::ScheduleTable>> known_;
  std::size_t ops_ = 0;
};

}  // namespace plumbline::sim
