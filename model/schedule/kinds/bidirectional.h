// The program that DualPipe and DualPipeV share. A rank holds two chunks, one of either side: side 0 is passed
// on the way in from the nearer end, side 1 on the way out.
#pragma once

#include <cstdint>

#include "model/schedule/schedule.h"

namespace plumbline::model {

struct BidirectionalRank {
  std::int32_t inner_ranks = 1;        // H: ranks from an end to where the two sides meet
  std::int32_t distance = 0;           // h: 0 at the end, H-1 innermost
  std::int32_t direction[2] = {0, 0};  // of either side
  std::int32_t stage[2] = {0, 0};      // of either side
  std::int32_t pairs = 0;              // step 4: so many times an overlapped pair of each kind
};

// Appends the next rank's program and its exceptions to the rule of postings.
void append_bidirectional(const BidirectionalRank& rank, Schedule& schedule);

}  // namespace plumbline::model
