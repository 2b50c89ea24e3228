// The messages that a rank holds over its program, including those between two stages of the rank.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "model/schedule/schedule.h"
#include "model/schedule/transfers.h"

namespace plumbline::model {

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
