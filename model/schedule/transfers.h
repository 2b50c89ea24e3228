// The messages that a rank sends and receives around each op of a schedule: one activation (forward) or one gradient
// (backward) between the ranks of adjacent stages. Stages on the same rank need no message.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "model/schedule/schedule.h"

namespace plumbline::model {

struct Transfer {
  bool send = false;      // else receive
  bool forward = true;    // activation of stage -> stage+1, else gradient of stage -> stage-1
  std::int32_t peer = 0;  // the other rank
  std::int32_t direction = 0;
  std::int32_t stage = 0;  // the stage that produced the message
  std::int32_t micro_batch = 0;
  bool operator==(const Transfer&) const = default;
};

// A value of each message of a schedule, by index instead of a search: there are millions of look-ups.
template <class Value>
class MessageTable {
 public:
  explicit MessageTable(const Schedule& schedule)
      : directions_(schedule.directions),
        stages_(schedule.stages),
        micro_batches_(static_cast<std::size_t>(schedule.micro_batches_per_direction())),
        values_(2 * static_cast<std::size_t>(directions_ * stages_) * micro_batches_) {}

  Value& at(bool forward, std::int32_t direction, std::int32_t stage, std::int32_t micro_batch) {
    const std::int32_t line = ((forward ? 1 : 0) * directions_ + direction) * stages_ + stage;
    return values_[static_cast<std::size_t>(line) * micro_batches_ + static_cast<std::size_t>(micro_batch)];
  }
  Value& at(const Transfer& transfer) {
    return at(transfer.forward, transfer.direction, transfer.stage, transfer.micro_batch);
  }

 private:
  std::int32_t directions_, stages_;
  std::size_t micro_batches_;
  std::vector<Value> values_;
};

// Returns batches[rank][k]: the messages that the rank posts and waits for just before op k; the entry after the last
// op holds the remaining sends. In an eager schedule the receives are those of op k. Its sends are listed with the next
// op too, but do not block: the executor posts them when their producer ends. Each eager message has its own tag. In a
// batched schedule Schedule::postings moves single messages to other batches. Both ranks of a pair list their messages
// in the same order if the schedule is made for batches.
std::vector<std::vector<std::vector<Transfer>>> point_to_point_batches(const Schedule& schedule, PointToPoint mode);
std::vector<std::vector<std::vector<Transfer>>> point_to_point_batches(const Schedule& schedule);  // its mode

// The messages that a rank holds over its program, including those between two stages of the rank.

// Returns the number of messages that an op consumes (`in`) or produces.
inline std::int32_t messages_of(const ScheduleOp& op, std::int32_t stages, bool in) {
  const auto there = [&](std::int32_t stage) { return stage >= 0 && stage < stages ? 1 : 0; };
  std::int32_t messages = 0;
  if (op.type == OpType::F || op.type == OpType::FB) messages += there(in ? op.f_stage - 1 : op.f_stage + 1);
  if (op.type != OpType::F && op.type != OpType::W) messages += there(in ? op.b_stage + 1 : op.b_stage - 1);
  return messages;
}

// Calls at(k, travel, messages) while the messages before op k travel (travel = true, where there are any) and while op
// k runs; the last call is for the end of the step, with k the number of ops. A receive buffer exists from the batch
// that posts the receive until its op begins, when it becomes a tensor of the slot. A send buffer exists from the end
// of its op until its batch is over or, under eager transfers (which block no rank), until the next op is over. A
// message between stages on one rank keeps its tensor until the next stage takes it. `batches` are the rank's, from
// point_to_point_batches.
template <class At>
void walk_messages(const Schedule& schedule, std::size_t rank, const std::vector<std::vector<Transfer>>& batches,
                   const At& at) {
  const bool eager = schedule.point_to_point == PointToPoint::eager;
  const auto& ops = schedule.ranks[rank];
  std::int32_t messages = 0;
  for (std::size_t k = 0; k <= ops.size(); ++k) {
    const auto sent = static_cast<std::int32_t>(std::ranges::count(batches[k], true, &Transfer::send));
    messages += static_cast<std::int32_t>(batches[k].size()) - sent;
    if (!batches[k].empty()) at(k, true, messages);
    if (!eager || k == ops.size()) messages -= sent;
    if (k < ops.size()) messages -= messages_of(ops[k], schedule.stages, true);
    at(k, false, messages);
    if (k == ops.size()) return;
    messages += messages_of(ops[k], schedule.stages, false);
    if (eager) messages -= sent;
  }
}

}  // namespace plumbline::model
