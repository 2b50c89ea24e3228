#include "tests/support/interpreter/operators.h"

namespace plumbline::tests {
namespace {

// Runs an operator that needs no data of other ranks.
template <void (*function)(Call&)>
void each_rank(Calls calls) {
  for (Call& call : calls) function(call);
}

}  // namespace

Function function_of(model::OperatorKind kind) {
  static constexpr Function functions[] = {
#define OPERATOR(kind, ...) each_rank<kind>,
#define ALL_TO_ALL_OPERATOR(kind, ...) kind,
#define COLLECTIVE_OPERATOR(kind, ...) kind,
#define PREDICTED_COLLECTIVE_OPERATOR(kind, ...) kind,
#include "model/graph/operators.def"
  };
  return functions[static_cast<std::size_t>(kind)];
}

}  // namespace plumbline::tests
