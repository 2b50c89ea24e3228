// The loss of a step, from what its micro-batches left.
#pragma once

#include <vector>

#include "real/executor/rank_state.h"
#include "real/executor/training_step.h"

namespace plumbline::real {

// Of the main model's head, summed over those of the rank's micro-batches that end on it; 0 where none does. Device
// idle.
double summed_loss(const RankState& rank, const std::vector<MicroBatchPlace>& places);

}  // namespace plumbline::real
