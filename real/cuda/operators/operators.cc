#include "real/cuda/operators/operators.h"

namespace plumbline::real::cuda {

Function function_of(model::OperatorKind kind) {
  using Kind = model::OperatorKind;
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
    case Kind::rmsnorm:
      return rmsnorm;
    case Kind::rmsnorm_grad:
      return rmsnorm_grad;
    case Kind::layernorm:
      return layernorm;
    case Kind::layernorm_grad:
      return layernorm_grad;
    case Kind::cast:
      return cast;
    case Kind::add:
      return add;
    case Kind::add_bias:
      return add_bias;
    case Kind::column_sum:
      return column_sum;
    case Kind::sigmoid_gate:
      return sigmoid_gate;
    case Kind::sigmoid_gate_grad:
      return sigmoid_gate_grad;
    case Kind::swiglu:
      return swiglu;
    case Kind::swiglu_grad:
      return swiglu_grad;
    case Kind::gelu:
      return gelu;
    case Kind::gelu_grad:
      return gelu_grad;
    case Kind::softmax:
      return softmax;
    case Kind::softmax_grad:
      return softmax_grad;
    case Kind::split:
      return split_columns;
    case Kind::concatenate:
      return concatenate;
    case Kind::assemble_heads:
      return assemble_heads;
    case Kind::assemble_heads_grad:
      return assemble_heads_grad;
    case Kind::rotary:
      return rotary;
    case Kind::rotary_grad:
      return rotary_grad;
    case Kind::transpose:
    case Kind::cast_transpose:
      return transpose;
    default:
      return nullptr;
  }
}

}  // namespace plumbline::real::cuda
