// The operators of the graph, one function each (model/graph/operators.def says what each computes).
#pragma once

#include "tests/support/interpreter/interpreter.h"

namespace plumbline::tests {

using Function = void (*)(Calls);

Function function_of(model::OperatorKind kind);

// One function for each kind, by the kind's name.
#define OPERATOR(kind, ...) void kind(Call& call);
#define ALL_TO_ALL_OPERATOR(kind, ...) void kind(Calls calls);
#define COLLECTIVE_OPERATOR(kind, ...) void kind(Calls calls);
#include "model/graph/operators.def"

// What dropout multiplies an entry by: 0 or 1 / (1 - probability). A stand-in for random numbers that depends on the
// token's place in its sequence and the column only, so that a token's mask is the same on every rank.
double dropout_factor(Index row, Index column, double probability);

}  // namespace plumbline::tests
