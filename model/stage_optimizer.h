// The optimizer step of one stage on one rank as a graph: gradients are reduced, AdamW updates this
// rank's shard of the FP32 master weights, and the new parameters are gathered (ZeRO-1, arXiv 1910.02054).
#pragma once

#include "model/graph/graph.h"
#include "model/layout.h"
#include "model/plan.h"
#include "model/program.h"

namespace plumbline::model {

// Dense parameters belong to layout.dense_group ranks, expert parameters to layout.expert_group.
// zero_stage 0: all-reduce, and every rank updates everything.
Graph make_stage_optimizer(const Plan& plan, const Layout& layout, const std::vector<Graph>& blocks,
                           const StageKind& stage);

}  // namespace plumbline::model
