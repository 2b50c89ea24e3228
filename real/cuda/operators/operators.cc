#include "real/cuda/operators/operators.h"

namespace plumbline::real::cuda {

using Kind = model::OperatorKind;

Function function_of(model::OperatorKind kind) {
  switch (kind) {
    case Kind::matmul:
      return matmul;
    case Kind::grouped_matmul:
      return grouped_matmul;
    case Kind::batched_matmul:
      return batched_matmul;
    case Kind::attention:
      return attention;
    case Kind::attention_grad:
      return attention_grad;
    case Kind::router:
      return router;
    case Kind::router_grad:
      return router_grad;
    case Kind::permute:
      return permute;
    case Kind::permute_grad:
      return permute_grad;
    case Kind::permute_transpose:
      return permute_transpose;
    case Kind::unpermute:
      return unpermute;
    case Kind::gather_rows:
      return gather_rows;
    case Kind::gather_columns:
      return gather_columns;
    case Kind::embedding:
      return embedding;
    case Kind::embedding_grad:
      return embedding_grad;
    case Kind::add_positions:
      return add_positions;
    case Kind::add_positions_grad:
      return add_positions_grad;
    case Kind::cross_entropy:
      return cross_entropy;
    case Kind::cross_entropy_grad:
      return cross_entropy_grad;
    case Kind::shift_tokens:
      return shift_tokens;
    case Kind::sum_of_squares:
      return sum_of_squares;
    case Kind::unscale:
      return unscale;
    case Kind::adamw:
      return adamw;
    default:
      return nullptr;
  }
}

}  // namespace plumbline::real::cuda
