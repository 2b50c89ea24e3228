// Derives the layout of a plan on a model: degrees, stages and their layers. All rules on what must divide what are
// checked here, each with its reason.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/base/error.h"
#include "model/plan/parallelism.h"
#include "model/schedule/schedule.h"

namespace plumbline::model {

struct Plan;

// A group of `ranks` ranks of one pipeline stage, `stride` ranks of the stage apart. Ranks of a stage are numbered
// tensor first, then context, then data. For experts the order is expert_tensor, expert, replicas, as in Megatron.
struct RankGroup {
  std::int64_t ranks = 1, stride = 1;
};
// Returns the number of expert groups that a token may use: the plan's limit, else the model's.
std::int64_t groups_per_token(const Plan& plan, const MixtureOfExperts& experts);
// Returns the group in which dispatch and combine move tokens.
RankGroup expert_group(const Parallelism& degrees);
// Returns the groups of the collectives within a layer, one for each degree that divides layers.
std::vector<RankGroup> layer_groups(const Parallelism& degrees);
// Returns the values of the degrees that divide parameters.
std::vector<std::int64_t> parameter_degrees(const Parallelism& degrees);

struct Layout {
  std::int64_t data = 1;                                // gpus / (tensor * context * pipeline)
  std::int64_t micro_batches = 1;                       // of the fullest pipeline (both directions together)
  std::int64_t tokens_per_micro_batch = 0;              // on one rank
  ScheduleShape schedule;                               // what the schedule is built for
  std::int64_t stages = 1;                              // per direction; each rank has one per chunk
  std::vector<std::vector<std::int64_t>> stage_layers;  // [stage] -> layer indices, in order
  std::int64_t experts_per_rank = 0;
  std::int64_t expert_replicas = 0;  // tensor*context*data / (expert*expert_tensor)
  bool two_directions = false;       // DualPipe: stage s on ranks s and P-1-s
  bool embedding_with_head = false;  // the first and the last stage lie on one rank
  // Ranks over which a stage's gradients are reduced and ZeRO shards (doubled under two_directions), and their stride.
  std::int64_t dense_group = 1, dense_stride = 1;
  std::int64_t expert_group = 1, expert_stride = 1;
};

// Returns the number of layers of each stage: those that the plan has, else even ones (model/plan/plan.h: StageLayers).
// Requires as many stages as the plan has numbers, else 0 < stages <= layers + 2.
std::vector<std::int64_t> stage_layer_counts(const Plan& plan, const Architecture& architecture, std::int64_t stages);

// Returns the stage that holds the multi-token prediction modules: the last one, or that before it where it is not the
// first and holds no layers ("m|L" at the end of a layout of Megatron-LM).
std::int64_t prediction_stage(const Layout& layout);

// Returns sentences about what degrees and batch leave undone or do twice: software that runs the layout in part, and
// sequences that do not divide. Other degrees would not, and a search tries no such layouts.
std::vector<std::string> shortfalls(const Plan& plan, const Layout& layout);

// Returns the same, and sentences about what the layout takes to be otherwise than the plan states.
std::vector<std::string> layout_warnings(const Plan& plan, const Layout& layout);

// Returns a sentence about the keys of [routing] that the plan gives a model without experts; none where it has some.
std::vector<std::string> unread_key_warnings(const Plan& plan, const Architecture& architecture);

// Returns the schedule of the plan: the file that it names, or a registered one; an unknown one is an input error.
Result<const ScheduleKind*> schedule_kind(const Plan& plan);

// Returns the shape that a schedule is built for. The plan has no key for the micro-batch group: it is the schedule's
// default if that fits, else the smallest that does.
ScheduleShape schedule_shape(const Plan& plan, std::int64_t micro_batches, const ScheduleKind& kind);

// Returns an infeasible error for the first rule of the plan's software by which it refuses the layout, or nothing.
std::optional<Error> check_software(const Plan& plan, const Architecture& architecture, const Layout& layout);

// Returns whether selective recomputation names operators, and those that the plan's software computes again.
bool recomputes(const Plan& plan, const Architecture& architecture);

// Returns sentences about what the software runs in part or with an argument more.
std::vector<std::string> software_layout_warnings(const Plan& plan, const Layout& layout);

// Fails with ErrorKind::infeasible and the reason when degrees do not divide, a schedule's constraint does not hold or
// the plan's software refuses the layout.
Result<Layout> make_layout(const Plan& plan, const Architecture& architecture);

// States how the parameters of a stage are sharded and replicated (ZeRO, arXiv 1910.02054; sharding inside groups with
// replication between them, "hybrid" or HSDP, arXiv 2304.11277). `shards` ranks of a stage, `stride` apart, hold one
// copy. `replicas` such groups, `replica_stride` apart, hold the same copy. Under zero_stage 0 there is one shard, and
// every rank is a replica.
struct ShardGroup {
  std::int64_t shards = 1, stride = 1;
  std::int64_t replicas = 1, replica_stride = 1;
};

// Returns the group of the experts' parameters (`expert`), whose replicas are further apart, or of all others.
ShardGroup shard_group(const Plan& plan, const Layout& layout, bool expert);

// Checks what sharding and the synchronisation interval require of the other degrees. Returns an infeasible error with
// the rule and the nearest valid values, or nothing.
std::optional<Error> check_sharding(const Plan& plan, const Layout& layout);

}  // namespace plumbline::model
