#include "real/cuda/operators/operators.h"

namespace plumbline::real::cuda {

Function function_of(model::OperatorKind kind) {
  static constexpr Function functions[] = {
#define OPERATOR(...) nullptr,
#define COMPUTED_OPERATOR(kind, ...) kind,
#include "model/graph/operators.def"
  };
  return functions[static_cast<std::size_t>(kind)];
}

}  // namespace plumbline::real::cuda
