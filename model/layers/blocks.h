// The blocks of a stage. Each is a graph of its own; a block's output is the next one's input.
#pragma once

#include <cstdint>

#include "model/graph/graph.h"
#include "model/layers/context.h"

namespace plumbline::model {

// In windowed layers attention sees the architecture's window only.
enum class BlockKind : std::uint8_t {
  embedding,
  dense_layer,
  moe_layer,
  windowed_dense_layer,
  windowed_moe_layer,
  multi_token_prediction,
  head
};

// Returns the kind of a transformer layer; layers count from 0.
BlockKind layer_kind(const Architecture& architecture, std::int64_t layer);

// Builds a block. embedding: token ids -> x. layers: x -> x. multi_token_prediction: passes x through and adds its loss
// (DeepSeek-V3 report, section 2.2). head: x -> loss. In a pass of inference the head, and a prediction module as a
// draft of the token after the given ones, return the ids of the next tokens.
Graph make_block(BlockKind kind, const LayerContext& context);

}  // namespace plumbline::model
