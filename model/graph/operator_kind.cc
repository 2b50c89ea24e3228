#include <array>
#include <utility>

#include "model/graph/attributes.h"

namespace plumbline::model {

std::string_view to_string(OperatorKind kind) {
  using enum OperatorKind;
  static constexpr auto names = std::to_array<std::pair<OperatorKind, std::string_view>>({
      {matmul, "matmul"},
      {grouped_matmul, "grouped_matmul"},
      {batched_matmul, "batched_matmul"},
      {attention, "attention"},
      {attention_grad, "attention_grad"},
      {rmsnorm, "rmsnorm"},
      {rmsnorm_grad, "rmsnorm_grad"},
      {layernorm, "layernorm"},
      {layernorm_grad, "layernorm_grad"},
      {cast, "cast"},
      {cast_transpose, "cast_transpose"},
      {transpose, "transpose"},
      {add, "add"},
      {split, "split"},
      {concatenate, "concatenate"},
      {rotary, "rotary"},
      {rotary_grad, "rotary_grad"},
      {assemble_heads, "assemble_heads"},
      {assemble_heads_grad, "assemble_heads_grad"},
      {swiglu, "swiglu"},
      {swiglu_grad, "swiglu_grad"},
      {add_bias, "add_bias"},
      {gelu, "gelu"},
      {gelu_grad, "gelu_grad"},
      {softmax, "softmax"},
      {softmax_grad, "softmax_grad"},
      {dropout, "dropout"},
      {dropout_grad, "dropout_grad"},
      {column_sum, "column_sum"},
      {sigmoid_gate, "sigmoid_gate"},
      {sigmoid_gate_grad, "sigmoid_gate_grad"},
      {router, "router"},
      {router_grad, "router_grad"},
      {permute, "permute"},
      {permute_grad, "permute_grad"},
      {permute_transpose, "permute_transpose"},
      {unpermute, "unpermute"},
      {gather_rows, "gather_rows"},
      {gather_columns, "gather_columns"},
      {embedding, "embedding"},
      {embedding_grad, "embedding_grad"},
      {add_positions, "add_positions"},
      {add_positions_grad, "add_positions_grad"},
      {cross_entropy, "cross_entropy"},
      {cross_entropy_grad, "cross_entropy_grad"},
      {shift_tokens, "shift_tokens"},
      {dispatch, "dispatch"},
      {dispatch_grad, "dispatch_grad"},
      {combine, "combine"},
      {combine_grad, "combine_grad"},
      {all_reduce, "all_reduce"},
      {reduce_scatter, "reduce_scatter"},
      {all_gather, "all_gather"},
      {sum_of_squares, "sum_of_squares"},
      {unscale, "unscale"},
      {adamw, "adamw"},
      {copy_to_host, "copy_to_host"},
      {copy_to_device, "copy_to_device"},
  });
  for (const auto& [value, name] : names)
    if (value == kind) return name;
  return "";
}

}  // namespace plumbline::model
