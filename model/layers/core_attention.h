// Core attention is softmax(q k^T / sqrt(dk)) v, causal per sequence. Fused: one kernel that stores no scores
// (FlashAttention, arXiv 2205.14135). Unfused: two GEMMs with the softmax between them. Its probabilities are stored
// for the backward pass in the format of q unless the group core_attention is recomputed (Megatron-LM before 2023;
// arXiv 2205.05198). With operands in FP8 or MXFP8 a fused kernel reads copies of q, k, v and of the gradient of its
// result, which are kept in place of them, and writes 16 bits (Transformer Engine, FusedAttnFunc of
// pytorch/attention/dot_product_attention/backends.py; MXFP8: NVIDIA/cudnn-frontend, sdpa_mxfp8_backward).
#pragma once

#include "model/graph/builder.h"
#include "model/layers/context.h"

namespace plumbline::model {

// Shapes: q [T, Hq*dk], k [T, Hk*dk], v [T, Hk*dv] -> [T, Hq*dv].
TensorId core_attention(GraphBuilder& builder, const LayerContext& context, TensorId q, TensorId k, TensorId v,
                        const AttentionAttributes& attributes);

}  // namespace plumbline::model
