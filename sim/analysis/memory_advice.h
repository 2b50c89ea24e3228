// Single changes that would make a plan fit in memory, tried one at a time, and what they cost in time.
#pragma once

#include "model/memory/memory.h"
#include "sim/predict/inputs.h"

namespace plumbline::sim {

// Tries more recomputation, more ZeRO, smaller micro-batches, doubled pipeline, tensor, context and expert degrees,
// narrower gradients and moments, offloading of activations and of the optimizer, sequence parallelism, and a schedule
// with one copy of the parameters. The number of GPUs and the global batch stay. Changes that the layout refuses are
// left out. Those that fit have the time of their closed form over that of the plan, unless no time can be predicted
// for one of both. `inputs` must have a valid layout.
model::MemoryAdvice memory_advice(const Inputs& inputs);

}  // namespace plumbline::sim
