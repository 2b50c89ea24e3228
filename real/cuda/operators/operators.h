// The operators of the graph on a GPU, one function each (model/graph/operators.def says what each computes; the host's
// in real/host/operators/ are the reference). Exchanges and collectives are the communicator's.
#pragma once

#include "real/cuda/operators/call.h"

namespace plumbline::real::cuda {

// One function for each kind that a device computes, by the kind's name.
#define OPERATOR(...)
#define COMPUTED_OPERATOR(kind, ...) Status kind(const Call& call);
#include "model/graph/operators.def"

// nullptr for a kind that no device computes.
Function function_of(model::OperatorKind kind);

}  // namespace plumbline::real::cuda
