// The messages that a rank holds over its program, hops between two stages of the rank included.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "model/schedule/schedule.h"
#include "model/schedule/transfers.h"

namespace plumbline::model {

// The messages that come to an op (`in`), or leave it.
inline std::int32_t messages_of(const ScheduleOp& op, std::int32_t stages, bool in) {
  const auto there = [&](std::int32_t stage) { return stage >= 0 && stage < stages ? 1 : 0; };
  std::int32_t messages = 0;
  if (op.type == OpType::F || op.type == OpType::FB) messages += there(in ? op.f_stage - 1 : op.f_stage + 1);
  if (op.type != OpType::F && op.type != OpType::W) messages += there(in ? op.b_stage + 1 : op.b_stage - 1);
  return messages;
}

// Calls at(k, travel, messages) while the messages before op k travel (travel = true, where there are any) and while
// op k runs; the last call is for the end of the step, with k the number of ops. A buffer to receive is there from the
// batch in which the receive is posted until its op begins, when it becomes a tensor of the slot. One to send is there
// from the end of its op until its batch is over, under eager transfers (which block nobody) until the op after it is.
// A hop between stages on one rank keeps its tensor until the next stage takes it. `batches` are the rank's, by
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
