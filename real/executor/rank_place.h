// Who is who: world ranks count the ranks of a pipeline stage first (tensor, then data), then pipeline ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "model/plan/layout.h"
#include "model/plan/plan.h"
#include "model/schedule/schedule.h"
#include "real/executor/communicator.h"

namespace plumbline::real {

struct RankPlace {
  std::int32_t world = 0;
  std::int32_t pipeline = 0;   // pipeline rank
  std::int32_t index = 0;      // among the ranks of its stage
  std::int32_t tensor = 0;     // position in its tensor-parallel group
  std::int32_t data = 0;       // data-parallel rank
  std::int32_t per_stage = 1;  // ranks of a stage
};

RankPlace rank_place(const model::Plan& plan, std::int32_t world_rank);

// Pipeline ranks that hold a stage, ascending: one, or two under schedules of two directions.
std::vector<std::int32_t> holders(const model::Schedule& schedule, std::int32_t stage);

// The group of `ranks` that lie `stride` apart to which `place` belongs. Ranks of a stage that two pipeline ranks hold
// count those of the lower one first.
Group strided_group(const RankPlace& place, const std::vector<std::int32_t>& holders, std::int64_t ranks,
                    std::int64_t stride);

}  // namespace plumbline::real
