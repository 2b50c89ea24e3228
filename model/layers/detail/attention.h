// Emits attention with its projections: multi-head latent attention (DeepSeek-V2 report, arXiv 2405.04434, section 2.1)
// and grouped-query attention (arXiv 2305.13245). x is the normalised input [T, H]; the result is the output
// projection's [T, H], without the residual.
#pragma once

#include "model/graph/builder.h"
#include "model/layers/context.h"

namespace plumbline::model {

TensorId multi_head_latent_attention(GraphBuilder& builder, const LayerContext& context, TensorId x);
TensorId grouped_query_attention(GraphBuilder& builder, const LayerContext& context, TensorId x, bool windowed);

// Emits the architecture's kind of attention as a layer of that mixer has it.
TensorId attention_layer(GraphBuilder& builder, const LayerContext& context, TensorId x, Mixer mixer);

}  // namespace plumbline::model
