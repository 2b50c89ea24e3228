// The order of chunks that interleaved schedules share (Narayanan et al., arXiv 2104.04473): rank r holds the stages r,
// P+r, 2P+r, ... of v P stages.
#pragma once

#include <cstdint>
#include <string_view>

#include "model/schedule/schedule.h"

namespace plumbline::model {

// Checks the micro-batch group of an interleaved schedule (0: as many micro-batches as ranks).
Result<void> check_interleaving(std::string_view name, const ScheduleShape& shape);
std::int32_t micro_batch_group(const ScheduleShape& shape);

// Returns the number of forwards before the first backward, without the one that starts the steady state: the
// micro-batches on their way to the last rank and back, and (v-1) chunks of a group. At most v M.
std::int32_t interleaved_warm_up(const ScheduleShape& shape, std::int32_t rank);

Schedule interleaved_outline(std::string_view name, const ScheduleShape& shape);

// Each rank runs `warm_up(shape, rank)` of its v M forwards, then in turn a forward and a backward; with `pairs` these
// two run as one overlapped pair. Forwards run by groups of micro-batches: chunk 0 of the whole group, then chunk 1,
// and so on. Backwards use the same groups, last chunk first.
Schedule interleaved_schedule(std::string_view name, const ScheduleShape& shape,
                              std::int32_t (*warm_up)(const ScheduleShape&, std::int32_t), bool pairs);

}  // namespace plumbline::model
