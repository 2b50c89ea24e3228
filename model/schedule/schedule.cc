#include "model/schedule/schedule.h"

#include <algorithm>
#include <array>
#include <cassert>

namespace plumbline::model {

std::string_view to_string(OpType type) {
  static constexpr std::array<std::string_view, 5> names = {"F", "B", "I", "W", "FB"};
  return names[static_cast<std::size_t>(type)];
}

double ScheduleCosts::of(OpType type) const { return std::array{F, B, I, W, FB}[static_cast<std::size_t>(type)]; }

std::int32_t Schedule::micro_batches_per_direction() const {
  std::int32_t last = -1;
  for (const auto& ops : ranks)
    for (const ScheduleOp& op : ops) last = std::max({last, op.f_mb, op.b_mb});
  return last + 1;
}

std::vector<std::vector<std::int32_t>> Schedule::stages_by_rank() const {
  std::vector<std::vector<std::int32_t>> all(static_cast<std::size_t>(shape.ranks));
  for (std::int32_t direction = 0; direction < directions; ++direction)
    for (std::int32_t stage = 0; stage < stages; ++stage)
      all[static_cast<std::size_t>(rank_of(direction, stage))].push_back(stage);
  return all;
}

std::int32_t Schedule::rank_of(std::int32_t direction, std::int32_t stage) const {
  switch (placement) {
    case Placement::looped:
      return stage % shape.ranks;
    case Placement::mirrored:
      return direction == 0 ? stage : shape.ranks - 1 - stage;
    case Placement::vee:
      return stage < shape.ranks ? stage : 2 * shape.ranks - 1 - stage;
  }
  assert(false);
  return 0;
}

}  // namespace plumbline::model
