// Emits the indexer of sparse attention, whole on each tensor rank. Its inputs get no gradient: it learns what
// attention gives the chosen keys, which is computed again in the backward pass. Engines score in FP8 (class Indexer of
// vllm-project/vllm @002d607 vllm/model_executor/models/deepseek_v2.py, DeepseekV4Indexer of @0484480
// vllm/models/deepseek_v4/attention.py).
#pragma once

#include <optional>

#include "model/graph/builder.h"
#include "model/layers/context.h"

namespace plumbline::model {

struct IndexedAttention {
  TensorId x, query_latent;     // the normalised stream [T, H], and the latent of queries [T, r]
  TensorId query = 0, key = 0;  // of attention, over latents or runs, from which the indexer learns in training
  AttentionAttributes of = {};  // that attention
  std::int64_t run = 0;         // tokens for which a key stands; 0: each token has one
};

// Returns the keys that each query sees [T, k]. `lengths`: in inference the tokens before each request.
TensorId choose_tokens(GraphBuilder& builder, const LayerContext& context, std::optional<TensorId> lengths,
                       const IndexedAttention& attention);

}  // namespace plumbline::model
