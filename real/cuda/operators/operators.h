// The operators of the graph on a GPU, one function each. model/graph/operators.def defines what each computes; those
// of real/host/operators/ are the reference. All-to-alls and collectives are in the communicator.
#pragma once

#include "real/cuda/operators/call.h"

namespace plumbline::real::cuda {

// One function for each kind that a device computes, with the kind's name.
#define OPERATOR(...)
#define COMPUTED_OPERATOR(kind, ...) Status kind(const Call& call);
#include "model/graph/operators.def"

// Returns nullptr for a kind that no device computes.
inline Function function_of(model::OperatorKind kind) {
  static constexpr Function functions[] = {
#define OPERATOR(...) nullptr,
#define COMPUTED_OPERATOR(kind, ...) kind,
#include "model/graph/operators.def"
  };
  return functions[static_cast<std::size_t>(kind)];
}

}  // namespace plumbline::real::cuda
