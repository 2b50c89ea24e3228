// Blocks on which the operators of a machine are compared with the interpreter's, and what their operands begin with.
#pragma once

#include <vector>

#include "model/base/random.h"
#include "tests/support/interpreter/interpreter.h"
#include "tests/support/tiny_models.h"

namespace plumbline::tests {

// All formats of numbers that are not whole become FP32.
model::Graph widened(model::Graph graph);

// All blocks of the models; of one, also a block divided over tensor-parallel ranks, which adds biases apart. Random
// numbers of dropout are nobody's to compare: there is none.
using MakeContext = model::LayerContext (*)(const TinyModel& model, model::Precision precision);
std::vector<model::Graph> operator_blocks(const std::vector<TinyModel>& models, model::Precision precision,
                                          MakeContext make_context);
model::LayerContext tiny_operator_context(const TinyModel& model, model::Precision precision);

// Clipped, in FP16 with a loss scale: every operator of an optimizer.
model::Graph optimizer_block();

// Random, as the tensor's name and role allow; for all that no operator of the graph writes.
Matrix start_value(const model::Tensor& tensor, std::int64_t sequence_length, model::Random& random);

}  // namespace plumbline::tests
