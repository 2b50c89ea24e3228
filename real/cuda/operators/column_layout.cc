#include <string>

#include "real/cuda/kernels/permutation/permutation.h"
#include "real/cuda/operators/operators.h"

namespace plumbline::real::cuda {

// Transposes a matrix, or each expert's. The columns of a transposed activation are its rows, which routing may decide.
Status transpose(const Call& call) {
  const auto& shape = call.kernel.graph->tensor(call.op().reads[0]).shape;
  const std::int64_t matrices = shape.size() == 3 ? shape[0].size : 1;
  const std::int64_t rows = matrices * call.in(0).columns(), columns = call.in(0).rows() / matrices;
  CudaBuffer& out = call.out(0);
  if (out.rows() != rows || out.columns() != columns) PLUMBLINE_TRY(out.resize(rows, columns));
  return outcome(transpose(call.in(0).view(), nullptr, out.view(), call.stream), "launching a transpose");
}

// The transpose kernel converts to the format of its output.
Status cast_transpose(const Call& call) { return transpose(call); }

Status split(const Call& call) {
  const TensorView x = call.in(0).view();
  std::int64_t first = 0;
  for (std::size_t i = 0; i < call.outs(); ++i) {
    PLUMBLINE_TRY(fit(call.out(i), x.rows));
    const TensorView part = call.out(i).view();
    const HeadColumns map{.first_width = part.columns, .first_offset = first};
    PLUMBLINE_TRY(outcome(take_columns(x, {}, map, part, call.stream), "launching a split"));
    first += part.columns;
  }
  return {};
}

Status concatenate(const Call& call) {
  if (call.ins() > most_parts) return {"more than " + std::to_string(most_parts) + " tensors side by side"};
  PLUMBLINE_TRY(fit(call.out(0), call.in(0).rows()));
  Parts parts;
  while (parts.count < static_cast<int>(call.ins())) {
    parts.view[parts.count] = call.in(static_cast<std::size_t>(parts.count)).view();
    ++parts.count;
  }
  return outcome(concatenate(parts, call.out(0).view(), call.stream), "launching a concatenation");
}

Status assemble_heads(const Call& call) {
  const auto& a = call.attributes<model::HeadsAttributes>();
  const TensorView kv = call.in(0).view(), rotary_key = call.in(1).view();
  PLUMBLINE_TRY(fit(call.out(0), kv.rows));
  PLUMBLINE_TRY(fit(call.out(1), kv.rows));
  const std::int64_t stride = a.nope_dim + a.value_dim;
  const HeadColumns keys{.first_width = a.nope_dim, .first_stride = stride, .second_width = a.rope_dim};
  PLUMBLINE_TRY(outcome(take_columns(kv, rotary_key, keys, call.out(0).view(), call.stream), "assembling keys"));
  const HeadColumns values{.first_width = a.value_dim, .first_stride = stride, .first_offset = a.nope_dim};
  return outcome(take_columns(kv, {}, values, call.out(1).view(), call.stream), "assembling values");
}

Status assemble_heads_grad(const Call& call) {
  const auto& a = call.attributes<model::HeadsAttributes>();
  const TensorView dk = call.in(0).view(), dv = call.in(1).view();
  PLUMBLINE_TRY(fit(call.out(0), dk.rows));
  PLUMBLINE_TRY(fit(call.out(1), dk.rows));
  const std::int64_t stride = a.nope_dim + a.rope_dim;
  const HeadColumns both{
      .first_width = a.nope_dim, .first_stride = stride, .second_width = a.value_dim, .second_stride = a.value_dim};
  PLUMBLINE_TRY(outcome(take_columns(dk, dv, both, call.out(0).view(), call.stream), "taking heads apart"));
  return outcome(sum_heads(dk, a.heads, stride, a.nope_dim, call.out(1).view(), call.stream),
                 "summing the gradient of the rotary key");
}

}  // namespace plumbline::real::cuda
