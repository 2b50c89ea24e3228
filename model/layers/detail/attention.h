// Emits attention with its projections: multi-head latent attention (DeepSeek-V2 report, arXiv 2405.04434,
// section 2.1), grouped-query attention (arXiv 2305.13245), and attention to one vector of each token. x is the
// normalised input [T, H]; the result is the output projection's [T, H], without the residual.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/graph/builder.h"
#include "model/layers/context.h"

namespace plumbline::model {

// Emits the architecture's kind of attention as a layer of that kind has it.
TensorId attention_layer(GraphBuilder& builder, const LayerContext& context, TensorId x, LayerKind kind);

// Attention of all heads to one vector of each token, its key and its value, and beyond a window to compressed entries
// (DeepSeek-V4, arXiv 2606.19348, section 2.3).
TensorId shared_key_value_attention(GraphBuilder& builder, const LayerContext& context, TensorId x, Mixer mixer);

// Compressed entries, each of a block of tokens (the same section; class DeepseekCompressor of vllm-project/vllm
// @01cc1d3 vllm/models/deepseek_v4/compressor.py).
struct Compression {
  std::int64_t tokens = 0, columns = 0;  // of a block, and of its entry
  bool overlaps = false;                 // an entry is of the block before it, too
  bool detached = false;                 // what it is projected from gets no gradient
};

// Returns the normalised and rotated entries of x [T, H], whole on each tensor rank: [K, columns]. In a pass of
// inference the projections of tokens whose block has not ended are kept. Projections have 16 bits whatever the format
// of GEMMs.
TensorId compressed_entries(GraphBuilder& builder, const LayerContext& context, const std::string& prefix, TensorId x,
                            std::optional<TensorId> lengths, const Compression& compression);

// Returns the bytes of the projections that are kept for one request in one layer, in FP32.
double compression_state_bytes(const Architecture& architecture, Mixer mixer);

// The indexer of sparse attention, whole on each tensor rank. Its inputs get no gradient: it learns what attention
// gives the chosen keys, which is computed again in the backward pass. Engines score in FP8 (class Indexer of
// vllm-project/vllm @002d607 vllm/model_executor/models/deepseek_v2.py, DeepseekV4Indexer of @0484480
// vllm/models/deepseek_v4/attention.py).
struct IndexedAttention {
  TensorId x, query_latent;      // the normalised stream [T, H], and the latent of queries [T, r]
  TensorId query = 0, key = 0;   // of attention, over latents or entries, from which the indexer learns in training
  AttentionAttributes of = {};   // that attention
  std::int64_t compression = 0;  // tokens for which a key stands; 0: each token has one
};

// Returns the keys that each query sees [T, k]. `lengths`: in inference the tokens before each request.
TensorId choose_tokens(GraphBuilder& builder, const LayerContext& context, std::optional<TensorId> lengths,
                       const IndexedAttention& attention);

// The indexer of grouped queries (arXiv 2606.13392), one head for each group of queries of the rank. It learns as the
// other one does. Engines project its queries and its key with those of attention.
struct IndexedBlocks {
  TensorId x;                       // the normalised stream [T, H]
  std::vector<TensorId> projected;  // in inference its columns of that projection: [T, heads*d], [T, d]
  TensorId query = 0, key = 0;      // of attention
  AttentionAttributes of = {};      // that attention, with the tokens that a query sees as a window
};

// Returns the indexer's heads on a rank.
std::int64_t index_heads(const LayerContext& context);

// Emits the choice of the blocks that each group of queries sees.
void choose_blocks(GraphBuilder& builder, const LayerContext& context, std::optional<TensorId> lengths,
                   const IndexedBlocks& attention);

}  // namespace plumbline::model
