#include "model/schedule/kinds/interleaving.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/schedule/kinds/kinds.h"
#include "model/schedule/transfers.h"

namespace plumbline::model {
namespace {

// Calls add(chunk, micro_batch) in the order of the forwards.
template <class Add>
void for_each_chunk(const ScheduleShape& shape, Add add) {
  const std::int32_t group = micro_batch_group(shape);
  for (std::int32_t first = 0, end = 0; first < shape.micro_batches; first = end) {
    end = first + std::min(group, shape.micro_batches - first);
    for (std::int32_t chunk = 0; chunk < shape.virtual_stages; ++chunk)
      for (std::int32_t mb = first; mb < end; ++mb) add(chunk, mb);
  }
}

std::vector<ScheduleOp> forwards_of(const ScheduleShape& shape, std::int32_t rank) {
  std::vector<ScheduleOp> ops;
  for_each_chunk(shape, [&](std::int32_t chunk, std::int32_t mb) {
    ops.push_back(forward_op(0, chunk * shape.ranks + rank, mb));
  });
  return ops;
}

std::vector<ScheduleOp> backwards_of(const ScheduleShape& shape, std::int32_t rank) {
  std::vector<ScheduleOp> ops;
  for_each_chunk(shape, [&](std::int32_t chunk, std::int32_t mb) {
    ops.push_back(backward_op(OpType::B, 0, (shape.virtual_stages - 1 - chunk) * shape.ranks + rank, mb));
  });
  return ops;
}

}  // namespace

// These are Megatron's conditions. With several chunks a group must last until its first micro-batch is back at rank 0
// for the next chunk; with a shorter group the ranks can deadlock.
Result<void> check_interleaving(std::string_view name, const ScheduleShape& shape) {
  TRY(check_counts(shape));
  if (shape.micro_batch_group < 0)
    return infeasible("micro_batch_group",
                      fmt::format("a micro-batch group has at least one micro-batch, not {}", shape.micro_batch_group),
                      "leave it out for a group of as many as ranks");
  const std::int32_t M = shape.micro_batches, P = shape.ranks, group = micro_batch_group(shape), rest = M % group;
  if (shape.virtual_stages == 1 || group >= M) return {};
  std::int32_t possible = std::max(group, std::min(P, M));  // M itself always fits
  while (M % possible != 0 && M % possible < P) ++possible;
  if (group < P)
    return infeasible(
        "micro_batch_group",
        fmt::format("{} on {} ranks needs groups of at least {} micro-batches, not {}", name, P, P, group),
        fmt::format("use a micro-batch group of {}", possible));
  if (rest == 0 || rest >= P) return {};
  return infeasible(
      "micro_batches",
      fmt::format("{} on {} ranks in groups of {} leaves {} of {} micro-batches for the last group, fewer than ranks",
                  name, P, group, rest, M),
      fmt::format("use {} or {} micro-batches, or a micro-batch group of {}", M - rest, M - rest + group, possible));
}

std::int32_t micro_batch_group(const ScheduleShape& shape) {
  return shape.micro_batch_group > 0 ? shape.micro_batch_group : shape.ranks;
}

std::int32_t interleaved_warm_up(const ScheduleShape& shape, std::int32_t rank) {
  const std::int64_t ahead =
      2 * std::int64_t{shape.ranks - 1 - rank} + std::int64_t{shape.virtual_stages - 1} * micro_batch_group(shape);
  return static_cast<std::int32_t>(std::min(ahead, std::int64_t{shape.virtual_stages} * shape.micro_batches));
}

Schedule interleaved_outline(std::string_view name, const ScheduleShape& shape) {
  Schedule schedule;
  schedule.kind = name;
  schedule.shape = shape;
  schedule.stages = shape.ranks * shape.virtual_stages;
  return schedule;
}

Schedule interleaved_schedule(std::string_view name, const ScheduleShape& shape,
                              std::int32_t (*warm_up)(const ScheduleShape&, std::int32_t), bool pairs) {
  Schedule schedule = interleaved_outline(name, shape);
  for (std::int32_t rank = 0; rank < shape.ranks; ++rank) {
    const std::vector<ScheduleOp> forwards = forwards_of(shape, rank);
    auto forward = forwards.begin() + warm_up(shape, rank);
    std::vector<ScheduleOp>& ops = schedule.ranks.emplace_back(forwards.begin(), forward);
    for (ScheduleOp backward : backwards_of(shape, rank)) {
      if (forward != forwards.end() && pairs) {
        backward.type = OpType::FB;
        backward.f_dir = forward->f_dir;
        backward.f_stage = forward->f_stage;
        backward.f_mb = forward->f_mb;
        ++forward;
      } else if (forward != forwards.end()) {
        ops.push_back(*forward++);
      }
      ops.push_back(backward);
    }
  }
  post_receives_ahead(schedule);
  return schedule;
}

}  // namespace plumbline::model
