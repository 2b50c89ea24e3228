// The blocks of a plan's stages, and the context in which each is built.
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

// Returns how the plan's tokens reach their experts: stack.dispatcher, else deepep.
Dispatcher dispatcher_of(const Plan& plan);

// Returns what the plan trains next to frozen parameters.
Adapters adapters_of(const Plan& plan);

// Returns the context of the plan's layers. plan and layout must belong together.
LayerContext plan_context(const Plan& plan, const Architecture& architecture, const Layout& layout,
                          const RoutingSpread& spread);

// Returns the same context with a default architecture, which is cheap to make and to compare.
LayerContext plan_degrees(const Plan& plan, const MixtureOfExperts& experts, const Layout& layout,
                          const RoutingSpread& spread);

struct StageBlock {
  BlockKind kind = BlockKind::dense_layer;
  bool recomputed = false;  // under the plan's policy; else not at all
  std::int64_t layer = -1;  // -1 for embedding and head
};

// Returns the blocks of a stage in the order of the forward pass.
std::vector<StageBlock> stage_blocks(const Plan& plan, const Architecture& architecture, const Layout& layout,
                                     std::int64_t stage);

Graph make_stage_block(BlockKind kind, bool recomputed, const LayerContext& context);

// Returns the size of one micro-batch's message between stages; its gradient is as large.
Bytes stage_message_bytes(const LayerContext& context);

}  // namespace plumbline::model
