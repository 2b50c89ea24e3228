#include "real/cuda/operators/operators.h"

namespace plumbline::real::cuda {

Function function_of(model::OperatorKind kind) {
  using enum model::OperatorKind;
  switch (kind) {
    case matmul:
      return &cuda::matmul;
    case grouped_matmul:
      return &cuda::grouped_matmul;
    case batched_matmul:
      return &cuda::batched_matmul;
    case attention:
      return &cuda::attention;
    case attention_grad:
      return &cuda::attention_grad;
    default:
      return nullptr;
  }
}

}  // namespace plumbline::real::cuda
