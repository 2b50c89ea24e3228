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

namespace {

using Batches = std::vector<std::vector<Transfer>>;

bool has_forward(const ScheduleOp& op) { return op.type == OpType::F || op.type == OpType::FB; }
bool has_gradient(const ScheduleOp& op) { return op.type != OpType::F && op.type != OpType::W; }

// The batches in which one rank posts its messages: the default ones and the schedule's exceptions.
class Postings {
 public:
  Postings(const Schedule& schedule, PointToPoint mode, std::size_t rank, std::size_t ops) {
    for (int slot = 0; slot < 4; ++slot) {
      const std::size_t delay = slot >= 2 ? 1 : 0;
      for (std::size_t op = 0; op < ops; ++op) batch_[slot].push_back(op + delay);
    }
    if (mode == PointToPoint::eager || schedule.postings.empty()) return;
    for (const Posting& posting : schedule.postings[rank]) {
      assert(posting.send ? posting.batch > posting.op : posting.batch <= posting.op);
      batch_[slot_of(posting.send, posting.forward)][static_cast<std::size_t>(posting.op)] =
          static_cast<std::size_t>(posting.batch);
    }
  }

  std::size_t of(std::size_t op, bool send, bool forward) const { return batch_[slot_of(send, forward)][op]; }

 private:
  static int slot_of(bool send, bool forward) { return (send ? 2 : 0) + (forward ? 1 : 0); }
  std::vector<std::size_t> batch_[4];
};

// Appends the sends (or the receives) of one rank in program order.
void append(const Schedule& schedule, std::int32_t rank, bool send, const Postings& postings, Batches& batches) {
  const auto& ops = schedule.ranks[static_cast<std::size_t>(rank)];
  const auto add = [&](std::size_t op, bool forward, std::int32_t direction, std::int32_t stage, std::int32_t mb) {
    const bool towards_end = forward == send;  // the peer is the next stage, else the one before
    const std::int32_t other = towards_end ? stage + 1 : stage - 1;
    if (other < 0 || other >= schedule.stages) return;
    const std::int32_t peer = schedule.rank_of(direction, other);
    if (peer == rank) return;
    batches[postings.of(op, send, forward)].push_back({send, forward, peer, direction, send ? stage : other, mb});
  };
  for (std::size_t k = 0; k < ops.size(); ++k) {
    const ScheduleOp& op = ops[k];
    if (has_forward(op)) add(k, true, op.f_dir, op.f_stage, op.f_mb);
    if (has_gradient(op)) add(k, false, op.b_dir, op.b_stage, op.b_mb);
  }
}

}  // namespace

std::vector<std::vector<std::vector<Transfer>>> point_to_point_batches(const Schedule& schedule, PointToPoint mode) {
  std::vector<Batches> all;
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const std::size_t ops = schedule.ranks[rank].size();
    const Postings postings(schedule, mode, rank, ops);
    Batches batches(ops + 1);
    append(schedule, static_cast<std::int32_t>(rank), true, postings, batches);
    append(schedule, static_cast<std::int32_t>(rank), false, postings, batches);
    all.push_back(std::move(batches));
  }
  return all;
}

std::vector<std::vector<std::vector<Transfer>>> point_to_point_batches(const Schedule& schedule) {
  return point_to_point_batches(schedule, schedule.point_to_point);
}

}  // namespace plumbline::model
