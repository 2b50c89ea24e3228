// Programs of one chunk per rank that split every backward into its input gradient and its weight gradient (Qi et al.,
// arXiv 2401.10241).
#pragma once

#include <cstdint>

#include "model/schedule/schedule.h"

namespace plumbline::model {

// Returns a program of `warm_up` forwards; then in turn one forward, one input gradient and the weight gradient of
// `delay` micro-batches ago; then the remaining weight gradients. The rank holds at most warm_up + 1 + delay
// activations, and never more than M.
std::vector<ScheduleOp> split_backward_program(std::int32_t rank, std::int32_t micro_batches, std::int32_t warm_up,
                                               std::int32_t delay);

// Rank r warms up with depth * (P-1-r) forwards and delays its weight gradients by depth * r, so that every rank holds
// depth * (P-1) + 1 activations.
Schedule split_backward_schedule(std::string_view name, const ScheduleShape& shape, std::int32_t depth);

}  // namespace plumbline::model
