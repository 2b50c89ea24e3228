// The memory of a rank that serves, of one block: weights that stay, and activations of a pass of inference. Keys and
// values are counted by model/layers/key_value_cache.h, what the driver and libraries hold by MemoryReserve
// (model/profile/cluster.h).
#pragma once

#include "model/base/units.h"
#include "model/graph/graph.h"

namespace plumbline::model {

// Returns the bytes of the parameters that a block owns; those that it shares belong to another one.
Bytes weight_bytes(const Graph& block);

// Returns the most that activations take at once in the forward operators of a block, which a pass runs one after the
// other. Each lives from its writer to its last reader, the block's input from the start and its output to the end.
Bytes activation_bytes(const Graph& block);

}  // namespace plumbline::model
