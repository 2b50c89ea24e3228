// Emits attention of all heads to one vector of each token, its key and its value, and beyond a window to keys of runs
// of tokens (DeepSeek-V4, arXiv 2606.19348, section 2.3). x is the normalised input [T, H]; the result is the output
// projection's [T, H], without the residual.
#pragma once

#include "model/graph/builder.h"
#include "model/layers/context.h"

namespace plumbline::model {

TensorId shared_key_value_attention(GraphBuilder& builder, const LayerContext& context, TensorId x, Mixer mixer);

}  // namespace plumbline::model
