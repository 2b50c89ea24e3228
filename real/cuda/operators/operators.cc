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
    case router:
      return &cuda::router;
    case router_grad:
      return &cuda::router_grad;
    case permute:
      return &cuda::permute;
    case permute_grad:
      return &cuda::permute_grad;
    case permute_transpose:
      return &cuda::permute_transpose;
    case unpermute:
      return &cuda::unpermute;
    case gather_rows:
      return &cuda::gather_rows;
    case gather_columns:
      return &cuda::gather_columns;
    case embedding:
      return &cuda::embedding;
    case embedding_grad:
      return &cuda::embedding_grad;
    case add_positions:
      return &cuda::add_positions;
    case add_positions_grad:
      return &cuda::add_positions_grad;
    case cross_entropy:
      return &cuda::cross_entropy;
    case cross_entropy_grad:
      return &cuda::cross_entropy_grad;
    case shift_tokens:
      return &cuda::shift_tokens;
    case sum_of_squares:
      return &cuda::sum_of_squares;
    case unscale:
      return &cuda::unscale;
    case adamw:
      return &cuda::adamw;
    default:
      return nullptr;
  }
}

}  // namespace plumbline::real::cuda
