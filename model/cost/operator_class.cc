#include "model/cost/operator_class.h"

namespace plumbline::model {

namespace {

OperatorClass cast_class(const Graph& graph, const Operator& op) {
  return graph.tensor(op.writes[0]).type == DataType::e5m6 ? OperatorClass::cast_e5m6 : OperatorClass::cast;
}

}  // namespace

OperatorClass operator_class(const Graph& graph, const Operator& op) {
  using Kind = OperatorKind;
  switch (op.kind) {
    case Kind::matmul:
    case Kind::grouped_matmul:
      return op.phase == Phase::W ? OperatorClass::weight_gradient_gemm : OperatorClass::gemm;
    case Kind::batched_matmul:
      return OperatorClass::gemm;
    case Kind::attention:
    case Kind::attention_grad:
      return OperatorClass::attention;
    case Kind::rmsnorm:
    case Kind::layernorm:
      return OperatorClass::norm;
    case Kind::rmsnorm_grad:
    case Kind::layernorm_grad:
      return OperatorClass::norm_gradient;
    case Kind::cast:
      return cast_class(graph, op);
    case Kind::cast_transpose:
      return OperatorClass::cast_transpose;
    case Kind::permute_transpose:
    case Kind::gather_columns:
      return OperatorClass::gather_transpose;
    case Kind::transpose:
      return OperatorClass::transpose;
    case Kind::add:
    case Kind::add_bias:
    case Kind::split:
    case Kind::concatenate:
    case Kind::shift_tokens:
    case Kind::softmax:
    case Kind::softmax_grad:
    case Kind::dropout:
    case Kind::dropout_grad:
    case Kind::sigmoid_gate:
    case Kind::sigmoid_gate_grad:
      return OperatorClass::elementwise;
    case Kind::assemble_heads:
    case Kind::assemble_heads_grad:
      return OperatorClass::copy;
    case Kind::rotary:
    case Kind::rotary_grad:
      return OperatorClass::rotary;
    case Kind::swiglu:
    case Kind::gelu:
      return OperatorClass::swiglu;
    case Kind::swiglu_grad:
    case Kind::gelu_grad:
      return OperatorClass::swiglu_gradient;
    case Kind::router:
    case Kind::router_grad:
      return OperatorClass::router;
    case Kind::permute:
    case Kind::gather_rows:
      return OperatorClass::permute;
    case Kind::unpermute:
    case Kind::permute_grad:
    case Kind::column_sum:
      return OperatorClass::reduce;
    case Kind::embedding:
    case Kind::embedding_grad:
    case Kind::add_positions:
    case Kind::add_positions_grad:
      return OperatorClass::embedding;
    case Kind::cross_entropy:
    case Kind::cross_entropy_grad:
      return OperatorClass::cross_entropy;
    case Kind::dispatch:
    case Kind::dispatch_grad:
    case Kind::combine:
    case Kind::combine_grad:
      return OperatorClass::exchange;
    case Kind::all_reduce:
    case Kind::reduce_scatter:
    case Kind::all_gather:
      return OperatorClass::collective;
    case Kind::sum_of_squares:
    case Kind::unscale:
    case Kind::adamw:
      return OperatorClass::optimizer;
    case Kind::copy_to_host:
    case Kind::copy_to_device:
      return OperatorClass::host_link;
  }
  return OperatorClass::elementwise;
}

std::string_view to_string(OperatorClass value) {
  switch (value) {
    case OperatorClass::gemm:
      return "gemm";
    case OperatorClass::weight_gradient_gemm:
      return "weight_gradient_gemm";
    case OperatorClass::attention:
      return "attention";
    case OperatorClass::norm:
      return "norm";
    case OperatorClass::norm_gradient:
      return "norm_gradient";
    case OperatorClass::cast:
      return "cast";
    case OperatorClass::cast_e5m6:
      return "cast_e5m6";
    case OperatorClass::cast_transpose:
      return "cast_transpose";
    case OperatorClass::gather_transpose:
      return "gather_transpose";
    case OperatorClass::transpose:
      return "transpose";
    case OperatorClass::elementwise:
      return "elementwise";
    case OperatorClass::copy:
      return "copy";
    case OperatorClass::rotary:
      return "rotary";
    case OperatorClass::swiglu:
      return "swiglu";
    case OperatorClass::swiglu_gradient:
      return "swiglu_gradient";
    case OperatorClass::permute:
      return "permute";
    case OperatorClass::reduce:
      return "reduce";
    case OperatorClass::embedding:
      return "embedding";
    case OperatorClass::cross_entropy:
      return "cross_entropy";
    case OperatorClass::optimizer:
      return "optimizer";
    case OperatorClass::router:
      return "router";
    case OperatorClass::exchange:
      return "exchange";
    case OperatorClass::collective:
      return "collective";
    case OperatorClass::host_link:
      return "host_link";
  }
  return "";
}

std::string_view breakdown_name(OperatorClass value) {
  switch (value) {
    case OperatorClass::gemm:
    case OperatorClass::weight_gradient_gemm:
      return "GEMM";
    case OperatorClass::attention:
      return "attention";
    case OperatorClass::cast:
    case OperatorClass::cast_e5m6:
    case OperatorClass::cast_transpose:
    case OperatorClass::gather_transpose:
    case OperatorClass::transpose:
      return "casts and transposes";
    case OperatorClass::router:
      return "router";
    case OperatorClass::exchange:
    case OperatorClass::collective:
    case OperatorClass::host_link:
      return "communication";
    case OperatorClass::optimizer:
      return "optimizer";
    default:
      return "other memory-bound";
  }
}

}  // namespace plumbline::model
