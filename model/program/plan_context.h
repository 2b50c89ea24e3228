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
#include "model/program/routing.h"

namespace plumbline::model {

struct Plan;

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

// Returns whether a step has forward passes of a reference model.
bool has_reference(const Plan& plan);

// How a stage runs a block: with activations that are recomputed under the plan's policy or all kept, or forward alone,
// as a reference model. That is the policy without its adapters, or a model of the same size without any.
enum class BlockPass : std::uint8_t { kept, recomputed, reference };
struct StageBlock {
  BlockKind kind = BlockKind::dense_layer;
  BlockPass pass = BlockPass::kept;
  std::int64_t layer = -1;  // -1 for embedding and head
};

// Returns the blocks of a stage in the order of the forward pass, those of a reference model after the policy's.
std::vector<StageBlock> stage_blocks(const Plan& plan, const Architecture& architecture, const Layout& layout,
                                     std::int64_t stage);

Graph make_stage_block(BlockKind kind, BlockPass pass, const LayerContext& context);

// Returns the size of one micro-batch's message between stages; its gradient is as large.
Bytes stage_message_bytes(const LayerContext& context);

}  // namespace plumbline::model
