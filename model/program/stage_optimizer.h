// The optimizer step of one stage on one rank as a graph: gradients are reduced, AdamW updates this rank's shard of
// the master weights, and the new parameters are gathered (ZeRO, arXiv 1910.02054). The operators of a unit can run
// apart from those of the others; when they do is model/program/data_parallel.h's business.
#pragma once

#include <vector>

#include "model/graph/graph.h"
#include "model/plan/layout.h"
#include "model/plan/plan.h"
#include "model/program/program.h"
#include "model/program/stage_units.h"

namespace plumbline::model {

struct StageOptimizer {
  Graph graph;
  std::vector<ShardUnit> units;  // in the order in which the backward pass completes their gradients
};

// zero_stage 0: all-reduce, and every rank updates everything. Sharded: reduce-scatter, all-reduce between the
// replicas of a shard, all-gather. Units of zero_stage 0 to 2 are buckets of at least overlap.gradient_bucket_bytes
// of whole gradients, those of experts apart; of zero_stage 3 blocks, their experts apart. `units` are those of the
// stage, in the order of stage_units().
StageOptimizer make_stage_optimizer(const Plan& plan, const Layout& layout, const std::vector<StageUnit>& units);

// A master copy in the stored format of 16 bits would hold nothing that the parameter does not.
bool has_master_weights(const Plan& plan, DataType stored);

}  // namespace plumbline::model
