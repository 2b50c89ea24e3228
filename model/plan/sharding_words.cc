#include "model/plan/sharding_words.h"

#include <fmt/format.h>

#include <algorithm>

namespace plumbline::model {

std::span<const ShardingStrategy> sharding_strategies() {
  static constexpr ShardingStrategy strategies[] = {{"FULL_SHARD", "1", 3, true, false},
                                                    {"SHARD_GRAD_OP", "2", 3, false, false},
                                                    {"NO_SHARD", "3", 0, true, false},
                                                    {"HYBRID_SHARD", "4", 3, true, true},
                                                    {"HYBRID_SHARD_ZERO2", "5", 3, false, true}};
  return strategies;
}

std::string sharding_hint(std::string_view word) {
  const auto all = sharding_strategies();
  const auto found = std::ranges::find(all, word, &ShardingStrategy::name);
  if (found == all.end()) return "";
  return fmt::format("{} is parallelism.zero_stage = {}{}{}", word, found->zero_stage,
                     found->within_node ? ", parallelism.shard_group = the GPUs of a node" : "",
                     found->reshard_after_forward ? "" : ", parallelism.reshard_after_forward = false");
}

}  // namespace plumbline::model
