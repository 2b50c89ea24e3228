// Reads and adds to the residual stream, or to the copies of it that an architecture has (hyper-connections, arXiv
// 2409.19606; made doubly stochastic, arXiv 2512.24880; class DeepseekV4HyperConnection of huggingface/transformers
// @02356fe src/transformers/models/deepseek_v4/modular_deepseek_v4.py). The weights of the copies are projected in 16
// bits.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/graph/builder.h"
#include "model/layers/context.h"

namespace plumbline::model {

// What half of a layer reads of the stream, and with which weights its result is added.
struct StreamReading {
  TensorId input;                   // [T, H]
  std::optional<TensorId> weights;  // [T, (1 + n) n] of n copies; none: there is one stream
};
StreamReading read_stream(GraphBuilder& builder, const LayerContext& context, const std::string& name, TensorId stream);

// Returns the stream with the sum of the terms, each [T, H], added.
TensorId add_to_stream(GraphBuilder& builder, const LayerContext& context, const std::string& name, TensorId stream,
                       const StreamReading& reading, const std::vector<TensorId>& terms);

// Returns the stream that begins with x [T, H] in each copy.
TensorId begin_stream(GraphBuilder& builder, const LayerContext& context, const std::string& name, TensorId x);

// Returns the weighted sum of the copies that a model's end reads [T, H].
TensorId end_stream(GraphBuilder& builder, const LayerContext& context, const std::string& name, TensorId stream);

}  // namespace plumbline::model
