// These functions emit small building blocks with their gradients.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/graph/builder.h"
#include "model/layers/context.h"

namespace plumbline::model {

// Returns y = gamma * x / rms(x); x [T, h]. With several heads each part of a row is normalised; gamma [h / heads].
TensorId normalize(GraphBuilder& builder, const std::string& name, TensorId x, double epsilon, std::int64_t heads = 1);

// Returns x / rms(x) of each head.
TensorId normalize_alone(GraphBuilder& builder, const std::string& name, TensorId x, double epsilon,
                         std::int64_t heads);

// Returns y = gamma * (x - mean(x)) / deviation(x), plus beta with `bias`; x [T, h].
TensorId layer_normalize(GraphBuilder& builder, const std::string& name, TensorId x, double epsilon, bool bias);

// Applies the architecture's norm of the residual stream; the result has the given format.
TensorId normalize_stream(GraphBuilder& builder, const LayerContext& context, const std::string& name, TensorId x,
                          DataType type);

// Zeroes entries with the given probability, in the current recompute group; returns x itself for probability 0, and
// where only the forward pass is wanted.
TensorId drop_out(GraphBuilder& builder, const std::string& name, TensorId x, double probability);

// Returns sigmoid(gate) * x; x [T, h], gate [T, 1], [T, h] or one column for each head.
TensorId gated(GraphBuilder& builder, const std::string& name, TensorId x, TensorId gate);

// Returns the sum of the terms, each [T, h].
TensorId residual(GraphBuilder& builder, const std::string& name, const std::vector<TensorId>& terms);

// Returns column ranges of x [T, sum of widths].
std::vector<TensorId> split_columns(GraphBuilder& builder, const std::string& name, TensorId x,
                                    const std::vector<std::int64_t>& widths);

// Returns [x1 | x2 | ...], joined by columns.
TensorId concatenate_columns(GraphBuilder& builder, const std::string& name, const std::vector<TensorId>& parts);

// Returns a copy of x, in another order of its rows or columns.
TensorId reordered(GraphBuilder& builder, const std::string& name, TensorId x);

// Returns a gradient where a CUDA graph of the backward pass reads it (NVIDIA/TransformerEngine
// transformer_engine/pytorch/graph.py @02d6bdc6, Graphed.backward: it is copied unless it lies there).
TensorId graph_gradient(GraphBuilder& builder, const std::string& name, TensorId gradient);

// Returns a tensor of another block, which keeps it for its own backward pass. The gradients of all blocks that read it
// are added up one after another.
TensorId borrowed(GraphBuilder& builder, const std::string& name, const GraphBuilder::Shape& shape, DataType type);

// Applies the rotary position embedding to the last rope_dim columns of every head. `lengths`: the tokens before each
// sequence, where there are any.
TensorId rotate(GraphBuilder& builder, const std::string& name, TensorId x, const RotaryAttributes& attributes,
                std::optional<TensorId> lengths = std::nullopt);

// Keeps a stored copy of `x` in another format for the backward pass, if there is one; the copy is dropped where x is.
void keep(GraphBuilder& builder, TensorId x, DataType type);

}  // namespace plumbline::model
