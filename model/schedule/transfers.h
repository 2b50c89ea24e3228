// The messages that a rank sends and receives around each op of a schedule: one activation (forward) or one gradient
// (backward) between the ranks of adjacent stages. Stages on the same rank need no message.
#pragma once

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

// Returns batches[rank][k]: the messages that the rank posts and waits for just before op k; the entry after the last
// op holds the remaining sends. In an eager schedule the receives are those of op k. Its sends are listed with the next
// op too, but do not block: the executor posts them when their producer ends. Each eager message has its own tag. In a
// batched schedule Schedule::postings moves single messages to other batches. Both ranks of a pair list their messages
// in the same order if the schedule is made for batches.
std::vector<std::vector<std::vector<Transfer>>> point_to_point_batches(const Schedule& schedule, PointToPoint mode);
std::vector<std::vector<std::vector<Transfer>>> point_to_point_batches(const Schedule& schedule);  // its mode

}  // namespace plumbline::model
