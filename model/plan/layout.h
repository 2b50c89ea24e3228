// What a plan means on a model: derived degrees, stages and their layers. The one place that knows
// what must divide what, each rule with its reason.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/base/error.h"
#include "model/plan/plan.h"
#include "model/schedule/schedule.h"

namespace plumbline::model {

// Ranks of a pipeline stage that do something together, and how many ranks of the stage lie from one to the next.
// Ranks of a stage count tensor first, then context, then data; for experts expert_tensor first, then expert, then
// replicas, as Megatron orders them.
struct RankGroup {
  std::int64_t ranks = 1, stride = 1;
};
// Ranks between which dispatch and combine carry tokens.
RankGroup expert_group(const Plan::Parallelism& degrees);
// Ranks between which the collectives within a layer run, one group for each degree that divides layers.
std::vector<RankGroup> layer_groups(const Plan::Parallelism& degrees);
// The values of the degrees that divide parameters.
std::vector<std::int64_t> parameter_degrees(const Plan::Parallelism& degrees);

struct Layout {
  std::int64_t data = 1;                                // gpus / (tensor * context * pipeline)
  std::int64_t micro_batches = 1;                       // per pipeline and step (both directions together)
  std::int64_t tokens_per_micro_batch = 0;              // on one rank
  ScheduleShape schedule;                               // what the schedule is built for
  std::int64_t stages = 1;                              // of one direction; as many per rank as the schedule has chunks
  std::vector<std::vector<std::int64_t>> stage_layers;  // [stage] -> layer indices, in order
  std::int64_t experts_per_rank = 0;
  std::int64_t expert_replicas = 0;  // tensor*context*data / (expert*expert_tensor)
  bool two_directions = false;       // DualPipe: stage s on ranks s and P-1-s
  bool embedding_with_head = false;  // the first and the last stage lie on one rank
  // Ranks over which a stage's gradients are reduced and ZeRO shards (doubled under two_directions), and how many
  // ranks of the stage lie from one to the next.
  std::int64_t dense_group = 1, dense_stride = 1;
  std::int64_t expert_group = 1, expert_stride = 1;
};

// The layers of each stage where a plan names none: as even as it goes, what is left over goes to interior stages
// first. Needs stages > 0.
std::vector<std::int64_t> even_layer_counts(std::int64_t layers, std::int64_t stages);

// Fails with ErrorKind::infeasible and the reason when degrees do not divide or a schedule's
// constraint does not hold.
Result<Layout> make_layout(const Plan& plan, const Architecture& architecture);

// Over which ranks the parameters of a stage are sharded and replicated (ZeRO, arXiv 1910.02054; sharding inside groups
// with replication between them, "hybrid" or HSDP, arXiv 2304.11277).
// `shards` ranks of a stage that are `stride` apart hold one copy; `replicas` such groups, `replica_stride` apart, hold
// the same. zero_stage 0: one shard, and every rank is a replica.
struct ShardGroup {
  std::int64_t shards = 1, stride = 1;
  std::int64_t replicas = 1, replica_stride = 1;
};

// Of parameters outside the experts, or of those of the experts, whose replicas lie further apart.
ShardGroup shard_group(const Plan& plan, const Layout& layout, bool expert);

// What sharding and synchronisation ask of the other degrees; infeasible with the rule and the nearest valid values.
std::optional<Error> check_sharding(const Plan& plan, const Layout& layout);

}  // namespace plumbline::model
