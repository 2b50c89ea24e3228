// Offloading makes activations wait in host memory between the forward and the backward pass.
#pragma once

#include "model/graph/graph.h"

namespace plumbline::model {

// Moves `share` (0 to 1, in whole rows of the first dimension) of every tensor that F leaves for I or W to the host.
// copy_to_host runs at the end of F; copy_to_device restores the tensor at the start of the phase that reads it first.
// Call it after recompute(), which decides what is kept. Embedding and head keep their tensors, because the backward
// pass begins and the forward pass ends with them. So does a block that passes its input through, because the block
// after it reads that input first. A copy has the section of the operator that writes, or first reads, its tensor.
void offload(Graph& graph, double share);

}  // namespace plumbline::model
