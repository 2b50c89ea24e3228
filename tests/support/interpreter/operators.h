// The operators of the graph, one function each (model/graph/operators.def defines what each computes).
#pragma once

#include "tests/support/interpreter/interpreter.h"

namespace plumbline::tests {

using Function = void (*)(Calls);

Function function_of(model::OperatorKind kind);

// Declares one function for each kind, with the kind's name.
#define OPERATOR(kind, ...) void kind(Call& call);
#define ALL_TO_ALL_OPERATOR(kind, ...) void kind(Calls calls);
#define COLLECTIVE_OPERATOR(kind, ...) void kind(Calls calls);
#define PREDICTED_COLLECTIVE_OPERATOR(kind, ...) void kind(Calls calls);
#include "model/graph/operators.def"

// Returns the factor of an entry under dropout: 0 or 1 / (1 - probability). In place of random numbers it depends only
// on the column and the token's place in its sequence, so that a token's mask is the same on every rank.
double dropout_factor(Index row, Index column, double probability);

}  // namespace plumbline::tests
