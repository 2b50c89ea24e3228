#include "model/schedule/kinds/split_backward.h"

#include <algorithm>

#include "model/schedule/kinds/kinds.h"

namespace plumbline::model {

std::vector<ScheduleOp> split_backward_program(std::int32_t rank, std::int32_t micro_batches, std::int32_t warm_up,
                                               std::int32_t delay) {
  std::vector<ScheduleOp> ops;
  ops.reserve(3 * static_cast<std::size_t>(micro_batches));
  std::int32_t forwards = 0;
  const auto forward = [&] {
    if (forwards < micro_batches) ops.push_back(forward_op(0, rank, forwards++));
  };
  for (std::int32_t i = 0; i < warm_up; ++i) forward();
  for (std::int32_t mb = 0; mb < micro_batches; ++mb) {
    forward();
    ops.push_back(backward_op(OpType::I, 0, rank, mb));
    if (mb >= delay) ops.push_back(backward_op(OpType::W, 0, rank, mb - delay));
  }
  for (std::int32_t mb = std::max(0, micro_batches - delay); mb < micro_batches; ++mb)
    ops.push_back(backward_op(OpType::W, 0, rank, mb));
  return ops;
}

Schedule split_backward_schedule(std::string_view name, const ScheduleShape& shape, std::int32_t depth) {
  Schedule schedule = single_chunk_outline(name, shape);
  for (std::int32_t rank = 0; rank < shape.ranks; ++rank)
    schedule.ranks.push_back(
        split_backward_program(rank, shape.micro_batches, depth * (shape.ranks - 1 - rank), depth * rank));
  post_receives_ahead(schedule);
  return schedule;
}

}  // namespace plumbline::model
