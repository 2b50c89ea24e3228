// Offloading: activations wait in host memory between the forward and the backward pass.
#pragma once

#include "model/graph/graph.h"

namespace plumbline::model {

// Of every tensor that F leaves for I or W in the layer part of a block, `share` (0 to 1, in whole rows of its first
// dimension) goes to the host at the end of F (copy_to_host) and comes back at the beginning of the phase that reads
// it first (copy_to_device, which restores what it writes). Comes after recomputation, which decides what is kept.
// Embedding and head keep theirs: the backward pass begins and the forward pass ends with them. So does a block that
// passes its input through, because the block after it reads it first.
// A copy carries the section of the operator that writes, or is the first to read, its tensor.
void offload(Graph& graph, double share);

}  // namespace plumbline::model
