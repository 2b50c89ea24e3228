// Which messages a rank exchanges around each op of a schedule. One activation (forward) or one
// gradient (backward) hops between the ranks of neighbouring stages; hops on one rank are free.
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

// batches[rank][k]: what the rank posts and waits for just before op k; the entry after the last op
// holds the sends that remain. For an eager schedule the receives are those of op k and the sends are
// listed with the next op too, but do not block (the executor posts them when the producer ends).
// Under batched, Schedule::postings moves single messages to other batches, and both ranks of a pair list its
// messages in the same order if the schedule is made for it; under eager each message has its own tag.
std::vector<std::vector<std::vector<Transfer>>> point_to_point_batches(const Schedule& schedule, PointToPoint mode);
std::vector<std::vector<std::vector<Transfer>>> point_to_point_batches(const Schedule& schedule);  // its own mode

}  // namespace plumbline::model
