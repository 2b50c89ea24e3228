// The words of PyTorch's FSDP for what data-parallel ranks shard.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace plumbline::model {

struct ShardingStrategy {
  std::string_view name, number;  // of torch.distributed.fsdp.ShardingStrategy
  std::int64_t zero_stage = 0;
  bool reshard_after_forward = true;
  bool within_node = false;  // shards over the GPUs of a node, with replicas between nodes
};
std::span<const ShardingStrategy> sharding_strategies();

// Returns the keys of a plan that mean what such a word does; "" of any other word.
std::string sharding_hint(std::string_view word);

}  // namespace plumbline::model
