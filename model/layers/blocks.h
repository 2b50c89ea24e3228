// The blocks of a stage. Each is a graph of its own; a block's output is the next one's input.
#pragma once

#include <cstdint>

#include "model/graph/graph.h"
#include "model/layers/context.h"

namespace plumbline::model {

// A dense or MoE layer mixes tokens by attention, by attention to the architecture's window only, by a recurrence, by
// attention and a recurrence in parallel, by attention to a window and to compressed entries, or by attention to chosen
// blocks of tokens; a borrowing layer to keys and values of an earlier one. A layer with a shared block has a
// recurrence, and attention and an MLP in the block. attention_layer, recurrent_layer, mlp_layer and experts_layer do
// one of the two things alone.
enum class BlockKind : std::uint8_t {
  embedding,
  dense_layer,
  moe_layer,
  windowed_dense_layer,
  windowed_moe_layer,
  borrowing_dense_layer,
  windowed_borrowing_dense_layer,
  recurrent_dense_layer,
  recurrent_moe_layer,
  parallel_dense_layer,
  shared_block_layer,
  shared_block_again_layer,
  attention_layer,
  recurrent_layer,
  mlp_layer,
  experts_layer,
  compressed_moe_layer,
  sparse_compressed_moe_layer,
  sparse_dense_layer,
  sparse_moe_layer,
  multi_token_prediction,
  head
};

// Returns the kind of the block that a layer is; layers count from 0.
BlockKind layer_kind(const Architecture& architecture, std::int64_t layer);
// Returns what the layer of a block does: of a module of multi-token prediction, its layer; nothing at a model's ends.
LayerKind layer_of(BlockKind kind, const Architecture& architecture);

// Builds a block. embedding: token ids -> x. layers: x -> x. multi_token_prediction: passes x through and adds its loss
// (DeepSeek-V3 report, section 2.2). head: x -> loss. In a pass of inference the head, and a prediction module as a
// draft of the token after the given ones, return the ids of the next tokens.
Graph make_block(BlockKind kind, const LayerContext& context);

}  // namespace plumbline::model
