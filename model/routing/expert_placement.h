// Which experts lie on which rank of an expert group.
#pragma once

#include <cstdint>
#include <vector>

namespace plumbline::model {

struct ExpertPlacement {
  std::int64_t ranks = 1;
  std::vector<std::int32_t> experts;  // [rank * slots + slot]
  std::vector<std::int32_t> copies;   // [expert] ranks' slots that hold it; a token goes to one of them

  // Writes the load of each rank, where copies of an expert share its load.
  void rank_loads(const std::vector<double>& load, std::vector<double>& ranks_load) const;
};

// Returns the placement without copies: experts in order, the first ones on the first rank.
ExpertPlacement contiguous_experts(std::int64_t experts, std::int64_t ranks);

// Returns a placement of `redundant` more copies that evens out the ranks' load, by the steps of DeepSeek's EPLB
// (github.com/deepseek-ai/EPLB): again and again a copy of the expert with most load per copy, then copies in falling
// order of load, each on the least loaded rank that has a free slot. Where the ranks divide over `groups`, an expert
// stays on the ranks of its group, so that tokens reach no more nodes than without. The experts and their copies
// together divide over the ranks; where each of both does, the fullest rank has at most the load that it has without
// copies.
ExpertPlacement balanced_experts(const std::vector<double>& load, std::int64_t ranks, std::int64_t redundant,
                                 std::int64_t groups);

}  // namespace plumbline::model
