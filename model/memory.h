// Memory of every pipeline rank, from the lifetimes of the tensors that the operator graphs name.
#pragma once

#include "model/cluster.h"
#include "model/plan.h"
#include "model/program.h"
#include "model/result.h"

namespace plumbline::model {

// Walks each rank's schedule. A tensor that F writes (or receives) and a later phase reads lives from
// F until the last phase that reads it; one that I writes and W reads lives from I to W. Tensors that
// are written and read within one phase count in the largest working set of a segment (buffers).
// Parameters are held once per stage on the rank; gradients in full; master weights and moments are
// sharded over the group that reduces the gradient when zero_stage >= 1. Not counted: the CUDA context,
// buffers inside communication libraries, fragmentation.
Memory memory(const Plan& plan, const Layout& layout, const StepProgram& program, const ClusterShape& cluster);

// "does not fit: rank 3 needs 95.3 GB of 84.9 GB; largest: activations, 40.1 GB", of the first rank that does not;
// "" when all fit.
std::string shortage(const Memory& memory);

}  // namespace plumbline::model
