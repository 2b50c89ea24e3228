#include "tests/support/interpreter/operators.h"

#include <map>
#include <stdexcept>

namespace plumbline::tests {

namespace {

using Kind = model::OperatorKind;

// An operator that needs nothing of other ranks.
template <void (*function)(Call&)>
void each_rank(Calls calls) {
  for (Call& call : calls) function(call);
}

const std::map<Kind, Function>& functions() {
  static const std::map<Kind, Function> table = {
      {Kind::matmul, each_rank<matmul>},
      {Kind::grouped_matmul, each_rank<grouped_matmul>},
      {Kind::batched_matmul, each_rank<batched_matmul>},
      {Kind::attention, each_rank<attention>},
      {Kind::attention_grad, each_rank<attention_grad>},
      {Kind::rmsnorm, each_rank<rmsnorm>},
      {Kind::rmsnorm_grad, each_rank<rmsnorm_grad>},
      {Kind::layernorm, each_rank<layernorm>},
      {Kind::layernorm_grad, each_rank<layernorm_grad>},
      {Kind::cast, each_rank<cast>},
      {Kind::cast_transpose, each_rank<transpose>},
      {Kind::transpose, each_rank<transpose>},
      {Kind::add, each_rank<add>},
      {Kind::split, each_rank<split>},
      {Kind::concatenate, each_rank<concatenate>},
      {Kind::rotary, each_rank<rotary>},
      {Kind::rotary_grad, each_rank<rotary_grad>},
      {Kind::assemble_heads, each_rank<assemble_heads>},
      {Kind::assemble_heads_grad, each_rank<assemble_heads_grad>},
      {Kind::swiglu, each_rank<swiglu>},
      {Kind::swiglu_grad, each_rank<swiglu_grad>},
      {Kind::add_bias, each_rank<add_bias>},
      {Kind::gelu, each_rank<gelu>},
      {Kind::gelu_grad, each_rank<gelu_grad>},
      {Kind::softmax, each_rank<softmax>},
      {Kind::softmax_grad, each_rank<softmax_grad>},
      {Kind::dropout, each_rank<dropout>},
      {Kind::dropout_grad, each_rank<dropout_grad>},
      {Kind::column_sum, each_rank<column_sum>},
      {Kind::sigmoid_gate, each_rank<sigmoid_gate>},
      {Kind::sigmoid_gate_grad, each_rank<sigmoid_gate_grad>},
      {Kind::router, each_rank<router>},
      {Kind::router_grad, each_rank<router_grad>},
      {Kind::permute, each_rank<permute>},
      {Kind::permute_grad, each_rank<permute_grad>},
      {Kind::permute_transpose, each_rank<permute_transpose>},
      {Kind::unpermute, each_rank<unpermute>},
      {Kind::gather_rows, each_rank<gather_rows>},
      {Kind::gather_columns, each_rank<gather_columns>},
      {Kind::embedding, each_rank<embedding>},
      {Kind::embedding_grad, each_rank<embedding_grad>},
      {Kind::add_positions, each_rank<add_positions>},
      {Kind::add_positions_grad, each_rank<add_positions_grad>},
      {Kind::cross_entropy, each_rank<cross_entropy>},
      {Kind::cross_entropy_grad, each_rank<cross_entropy_grad>},
      {Kind::shift_tokens, each_rank<shift_tokens>},
      {Kind::dispatch, dispatch},
      {Kind::dispatch_grad, dispatch_grad},
      {Kind::combine, combine},
      {Kind::combine_grad, combine_grad},
      {Kind::all_reduce, all_reduce},
      {Kind::reduce_scatter, reduce_scatter},
      {Kind::all_gather, all_gather},
      {Kind::sum_of_squares, each_rank<sum_of_squares>},
      {Kind::unscale, each_rank<unscale>},
      {Kind::adamw, each_rank<adamw>},
      {Kind::copy_to_host, each_rank<copy>},
      {Kind::copy_to_device, each_rank<copy>},
  };
  return table;
}

}  // namespace

Function function_of(Kind kind) {
  const auto found = functions().find(kind);
  if (found == functions().end())
    throw std::logic_error("no operator that can be run: " + std::string(to_string(kind)));
  return found->second;
}

}  // namespace plumbline::tests
