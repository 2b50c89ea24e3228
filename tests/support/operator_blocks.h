// Blocks on which the operators of a machine are compared with the interpreter's, and start values of their operands.
#pragma once

#include <vector>

#include "model/base/random.h"
#include "tests/support/interpreter/interpreter.h"
#include "tests/support/tiny_models.h"

namespace plumbline::tests {

// Returns the graph with FP32 for all formats that are not whole numbers.
model::Graph widened(model::Graph graph);

// Returns all blocks of the models, in training and in passes of inference; for one model also a block divided over
// tensor-parallel ranks, which adds biases separately. Dropout is off, because its random numbers cannot be compared.
using MakeContext = model::LayerContext (*)(const TinyModel& model, model::Precision precision);
std::vector<model::Graph> operator_blocks(const std::vector<TinyModel>& models, model::Precision precision,
                                          MakeContext make_context);
model::LayerContext tiny_operator_context(const TinyModel& model, model::Precision precision);

// Returns every operator of an optimizer: with clipping, and FP16 with a loss scale.
model::Graph optimizer_block();

// Returns random numbers that the tensor's name and role allow, for tensors that no operator of the graph writes.
Matrix start_value(const model::Tensor& tensor, std::int64_t sequence_length, model::Random& random);

}  // namespace plumbline::tests
