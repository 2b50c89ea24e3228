// What a plan says about the blocks of its stages: which there are and what each is written with.
#pragma once

#include <cstdint>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/base/units.h"
#include "model/graph/graph.h"
#include "model/graph/recompute.h"
#include "model/layers/blocks.h"
#include "model/layers/context.h"
#include "model/plan/layout.h"
#include "model/plan/plan.h"
#include "model/program/routing.h"

namespace plumbline::model {

RecomputePolicy recompute_policy(const Plan& plan);

// plan and layout must belong together.
LayerContext plan_context(const Plan& plan, const Architecture& architecture, const Layout& layout,
                          const RoutingSpread& spread);

// The same but for the architecture, which is left as it is by default: quick to make and to compare.
LayerContext plan_degrees(const Plan& plan, const MixtureOfExperts& experts, const Layout& layout,
                          const RoutingSpread& spread);

struct StageBlock {
  BlockKind kind = BlockKind::dense_layer;
  bool recomputed = false;  // under the plan's policy; else nothing is
  std::int64_t layer = -1;  // -1 for embedding and head
};

// In the order of the forward pass.
std::vector<StageBlock> stage_blocks(const Plan& plan, const Architecture& architecture, const Layout& layout,
                                     std::int64_t stage);

Graph make_stage_block(BlockKind kind, bool recomputed, const LayerContext& context);

// One message between stages, of one micro-batch; as large on the way back.
Bytes stage_message_bytes(const LayerContext& context);

}  // namespace plumbline::model
