// Emits feed-forward layers: the dense MLP, gated (SwiGLU, arXiv 2002.05202) or with GELU (arXiv 1606.08415), and the
// mixture of experts (DeepSeekMoE, arXiv 2401.06066) with its routing, dispatch and combine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/graph/builder.h"
#include "model/layers/context.h"

namespace plumbline::model {

// SwiGLU is h = silu(gate) * up, optionally times a weight per row. In FP8 training h is written in FP8 for the next
// GEMM and gate|up is kept in FP8 for the backward pass (DeepSeek-V3 report, section 3.3.3).

// Shapes: gate_up [n, 2f], row_weights [n] -> [n, f].
TensorId gated_activation(GraphBuilder& builder, const LayerContext& context, const std::string& name, TensorId gate_up,
                          std::optional<TensorId> row_weights = std::nullopt);

// GELU is h = x * Phi(x) with the normal distribution's Phi (arXiv 1606.08415). In FP8 training h is written in FP8 for
// the next GEMM and x is kept in FP8 for the backward pass, as with SwiGLU.

// Shapes: x [n, f] -> [n, f].
TensorId gelu_activation(GraphBuilder& builder, const LayerContext& context, const std::string& name, TensorId x,
                         std::optional<TensorId> row_weights = std::nullopt);

// Returns the columns before the architecture's activation for so many after it, and that activation.
std::int64_t wide_columns(const LayerContext& context, std::int64_t intermediate);
// Returns the columns of each of the matrices that compute them.
std::vector<std::int64_t> adapted_parts(const LayerContext& context, std::int64_t intermediate);
TensorId activated(GraphBuilder& builder, const LayerContext& context, const std::string& prefix, TensorId wide,
                   std::optional<TensorId> row_weights = std::nullopt);

// Returns down(swiglu(gate_up(x))), or down(gelu(up(x))) where the architecture has no gate, x [T, H] -> [T, H], or the
// rank's part of that sum.
TensorId mlp(GraphBuilder& builder, const LayerContext& context, const std::string& prefix, TensorId x,
             std::int64_t intermediate, bool partial = false);

// x: the normalised input [T, H]; stream: the residual stream [T, H], added by the combine. Without one the result is
// what experts add to it. router_input: what the router reads in place of x.
TensorId mixture_of_experts(GraphBuilder& builder, const LayerContext& context, TensorId x,
                            std::optional<TensorId> stream, std::optional<TensorId> router_input = std::nullopt);

// Marks the operators of a layer that are part of the kernels of its experts' GEMMs where the software has such kernels
// (transformer_engine/pytorch/ops/fused: GEMMSwiGLU, GEMMDSwiGLU). The first GEMM forward and the second backward
// compute the activation or its gradient, with limits, and cast it; the second forward adds the biases. What is
// computed again has no GEMM.
void fuse_experts(Graph& layer);

}  // namespace plumbline::model
