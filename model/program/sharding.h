// Over which ranks the parameters of a stage are sharded and replicated (ZeRO, arXiv 1910.02054; sharding inside
// groups with replication between them, "hybrid" or HSDP, arXiv 2304.11277).
#pragma once

#include <cstdint>
#include <optional>

#include "model/base/error.h"
#include "model/plan/layout.h"
#include "model/plan/plan.h"

namespace plumbline::model {

// `shards` ranks of a stage that are `stride` apart hold one copy; `replicas` such groups, `replica_stride` apart, hold
// the same. zero_stage 0: one shard, and every rank is a replica.
struct ShardGroup {
  std::int64_t shards = 1, stride = 1;
  std::int64_t replicas = 1, replica_stride = 1;
};

// Of parameters outside the experts, or of those of the experts, whose replicas lie further apart
// (model/plan/layout.h).
ShardGroup shard_group(const Plan& plan, const Layout& layout, bool expert);

// What sharding and synchronisation ask of the other degrees; infeasible with the rule and the nearest valid values.
std::optional<Error> check_sharding(const Plan& plan, const Layout& layout);

}  // namespace plumbline::model
