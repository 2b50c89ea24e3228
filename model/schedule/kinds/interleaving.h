// The order of chunks that interleaved schedules share (Narayanan et al., arXiv 2104.04473): rank r holds the
// stages r, P+r, 2P+r, ... of v P stages.
#pragma once

#include <cstdint>
#include <string_view>

#include "model/schedule/schedule.h"

namespace plumbline::model {

// What an interleaved schedule needs of its micro-batch group (0: as many as ranks).
Result<void> check_interleaving(std::string_view name, const ScheduleShape& shape);
std::int32_t micro_batch_group(const ScheduleShape& shape);

// Forwards before the first backward, without the one that the steady state starts with: what is on the way to
// the last rank and back, and (v-1) chunks of a group. At most v M.
std::int32_t interleaved_warm_up(const ScheduleShape& shape, std::int32_t rank);

Schedule interleaved_outline(std::string_view name, const ScheduleShape& shape);

// Each rank runs `warm_up(shape, rank)` of its v M forwards, then in turn a forward and a backward, in `pairs` both as
// one overlapped pair. Forwards come group by group of micro-batches, within a group chunk 0 for all of them, then
// chunk 1 and so on; backwards in the same grouping, the last chunk first.
Schedule interleaved_schedule(std::string_view name, const ScheduleShape& shape,
                              std::int32_t (*warm_up)(const ScheduleShape&, std::int32_t), bool pairs);

}  // namespace plumbline::model
