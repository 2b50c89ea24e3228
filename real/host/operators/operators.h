// The operators of the graph on the host, one function each (model/graph/operators.def says what each computes), in
// FP32 on row-major matrices. They work on one rank; exchanges and collectives are real/host/comm/communicator.h's.
#pragma once

#include "model/graph/graph.h"
#include "real/host/operators/call.h"

namespace plumbline::real::host {

// nullptr for a kind that the host cannot compute (exchanges and collectives, dropout, copies to a host).
Function function_of(model::OperatorKind kind);

// One function for each kind that a device computes, by the kind's name.
#define OPERATOR(...)
#define COMPUTED_OPERATOR(kind, ...) void kind(const Call& call);
#include "model/graph/operators.def"

// Runs the operator, then rounds what it wrote to its tensors' formats (real/host/rounding.h).
void run(const Call& call);

}  // namespace plumbline::real::host
