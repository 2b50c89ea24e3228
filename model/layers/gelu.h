// GELU is h = x * Phi(x) with the normal distribution's Phi (arXiv 1606.08415). In FP8 training h is written in FP8 for
// the next GEMM and x is kept in FP8 for the backward pass, as with SwiGLU.
#pragma once

#include <string>

#include "model/graph/builder.h"
#include "model/layers/context.h"

namespace plumbline::model {

// Shapes: x [n, f] -> [n, f].
TensorId gelu_activation(GraphBuilder& builder, const LayerContext& context, const std::string& name, TensorId x);

}  // namespace plumbline::model
