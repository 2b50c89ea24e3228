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
    case rmsnorm:
      return &cuda::rmsnorm;
    case rmsnorm_grad:
      return &cuda::rmsnorm_grad;
    case layernorm:
      return &cuda::layernorm;
    case layernorm_grad:
      return &cuda::layernorm_grad;
    case cast:
      return &cuda::cast;
    case add:
      return &cuda::add;
    case add_bias:
      return &cuda::add_bias;
    case column_sum:
      return &cuda::column_sum;
    case sigmoid_gate:
      return &cuda::sigmoid_gate;
    case sigmoid_gate_grad:
      return &cuda::sigmoid_gate_grad;
    case swiglu:
      return &cuda::swiglu;
    case swiglu_grad:
      return &cuda::swiglu_grad;
    case gelu:
      return &cuda::gelu;
    case gelu_grad:
      return &cuda::gelu_grad;
    case softmax:
      return &cuda::softmax;
    case softmax_grad:
      return &cuda::softmax_grad;
    case split:
      return &cuda::split_columns;
    case concatenate:
      return &cuda::concatenate;
    case assemble_heads:
      return &cuda::assemble_heads;
    case assemble_heads_grad:
      return &cuda::assemble_heads_grad;
    case rotary:
      return &cuda::rotary;
    case rotary_grad:
      return &cuda::rotary_grad;
    case transpose:
    case cast_transpose:
      return &cuda::transpose;
    default:
      return nullptr;
  }
}

}  // namespace plumbline::real::cuda
