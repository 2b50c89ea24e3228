#include "real/cuda/operators/operators.h"

namespace plumbline::real::cuda {

Function function_of(model::OperatorKind kind) {
  switch (kind) {
    default:
      return nullptr;
  }
}

}  // namespace plumbline::real::cuda
