// SwiGLU is h = silu(gate) * up, optionally times a weight per row. In FP8 training h is written in FP8 for the next
// GEMM and gate|up is kept in FP8 for the backward pass (DeepSeek-V3 report, section 3.3.3).
#pragma once

#include <optional>
#include <string>

#include "model/graph/builder.h"
#include "model/layers/context.h"

namespace plumbline::model {

// Shapes: gate_up [n, 2f], row_weights [n] -> [n, f].
TensorId gated_activation(GraphBuilder& builder, const LayerContext& context, const std::string& name, TensorId gate_up,
                          std::optional<TensorId> row_weights);

// GELU is h = x * Phi(x) with the normal distribution's Phi (arXiv 1606.08415). In FP8 training h is written in FP8 for
// the next GEMM and x is kept in FP8 for the backward pass, as with SwiGLU.

// Shapes: x [n, f] -> [n, f].
TensorId gelu_activation(GraphBuilder& builder, const LayerContext& context, const std::string& name, TensorId x);

}  // namespace plumbline::model
