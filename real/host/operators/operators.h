// The operators of the graph on the host, one function each, in FP32 on row-major matrices. model/graph/operators.def
// defines what each computes. They work on one rank; real/host/comm/communicator.h has the all-to-all and collectives.
#pragma once

#include "model/graph/graph.h"
#include "real/host/operators/call.h"

namespace plumbline::real::host {

// Returns nullptr for a kind that has no function here (all-to-all, collectives, dropout, copies to a host).
Function function_of(model::OperatorKind kind);

// Declares one function for each kind that a device computes, with the kind's name.
#define OPERATOR(...)
#define COMPUTED_OPERATOR(kind, ...) void kind(const Call& call);
#include "model/graph/operators.def"

// Runs the operator, then rounds its outputs to the formats of their tensors (real/host/rounding.h).
void run(const Call& call);

}  // namespace plumbline::real::host
