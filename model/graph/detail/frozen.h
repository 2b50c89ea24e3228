// Leaves out of a block what only the gradients of frozen parameters need.
#pragma once

#include <set>

#include "model/graph/graph.h"

namespace plumbline::model {

// Removes the operators of the backward pass, and the casts, of which nothing reaches the gradient of the input or of a
// trained parameter, as automatic differentiation does. `gradients` are those of frozen parameters; operators that
// compute something else too no longer write them, and casts no layout that nothing reads. The gradient of the input
// stays: it is needed in every block but the first with something to train, where software that checkpoints
// activations has it all the same (enable_input_require_grads of huggingface/transformers).
void leave_out_gradients(Graph& graph, const std::set<TensorId>& gradients);

}  // namespace plumbline::model
