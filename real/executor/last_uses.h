// After which kernel of a slot its temporary activations are free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "real/executor/rank_state.h"

namespace plumbline::real {

// A temporary activation that no later kernel of the slot uses.
struct LastUse {
  bool forward = false;
  std::uint32_t index = 0;                 // of the stage's activations
  std::optional<model::Stream> only_user;  // the stream of all its kernels
};

// By the segment and the place of the operator in it.
using LastUses = std::map<std::pair<std::int32_t, std::size_t>, std::vector<LastUse>>;

// Of a slot that runs the template for the stages of `op`.
LastUses find_last_uses(const RankState& rank, std::uint16_t template_index, const model::ScheduleOp& op);

}  // namespace plumbline::real
