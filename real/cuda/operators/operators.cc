#include "real/cuda/operators/operators.h"

namespace plumbline::real::cuda {

Function function_of(model::OperatorKind kind) {
  using Kind = model::OperatorKind;
  switch (kind) {
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
