// The program that DualPipe and DualPipeV share. A rank holds two chunks, one of each side: micro-batches pass side 0
// on the way in from the nearer end, and side 1 on the way out.
#pragma once

#include <cstdint>

#include "model/schedule/schedule.h"

namespace plumbline::model {

struct BidirectionalRank {
  std::int32_t inner_ranks = 1;        // H: ranks from an end to the middle
  std::int32_t distance = 0;           // h: 0 at the end, H-1 innermost
  std::int32_t direction[2] = {0, 0};  // direction of each side
  std::int32_t stage[2] = {0, 0};      // stage of each side
  std::int32_t pairs = 0;              // step 4: number of overlapped pairs of each kind
};

// Appends the next rank's program and its postings.
void append_bidirectional(const BidirectionalRank& rank, Schedule& schedule);

}  // namespace plumbline::model
