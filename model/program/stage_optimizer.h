// The optimizer step of one stage on one rank as a graph: gradients are reduced, AdamW or Muon updates this rank's
// shard of the master weights, and the new parameters are gathered (ZeRO, arXiv 1910.02054). The operators of each unit
// can run separately; model/program/data_parallel.h decides when.
#pragma once

#include <vector>

#include "model/graph/graph.h"
#include "model/plan/layout.h"
#include "model/program/program.h"

namespace plumbline::model {

struct Plan;

struct StageOptimizer {
  Graph graph;
  std::vector<ShardUnit> units;  // in the order in which the backward pass completes their gradients
};

// Under zero_stage 0 the gradients are all-reduced and every rank updates all parameters. Sharded gradients are
// reduce-scattered, all-reduced between the replicas of a shard, and the parameters all-gathered. Units of zero_stage 0
// to 2 are buckets of at least overlap.gradient_bucket_bytes of unsharded gradients; those of zero_stage 3 are blocks.
// Experts always form units of their own. Frozen parameters are gathered only. `units` are those of the stage, in the
// order of stage_units().
//
// Muon (kellerjordan.github.io/posts/muon) has one moment. Five Newton-Schulz iterations in BF16 orthogonalise that of
// each matrix X [m, n], m <= n: A = X X^T, B = b A + c A A, X = a X + B X, 4 m^2 n + 2 m^3 FLOPs each. They need whole
// matrices, so where ranks have shards each gathers the moment of the matrices that its shard meets, those within it
// and one more, and computes with these (distributed Muon, arXiv 2502.16982, section 2.3). Tensor ranks orthogonalise
// the part of a matrix that they hold (muon_tp_mode blockwise of Megatron-LM).
StageOptimizer make_stage_optimizer(const Plan& plan, const Layout& layout, const std::vector<StageUnit>& units);

// Returns whether the plan keeps a master copy of parameters of this format. A master copy in the same 16-bit format
// would hold nothing that the parameter does not.
bool has_master_weights(const Plan& plan, DataType stored);

}  // namespace plumbline::model
