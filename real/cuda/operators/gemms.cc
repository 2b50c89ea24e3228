// GEMMs of tokens and weights. If two streams share one, each computes its own rows, so that nothing is copied.
#include "real/cuda/operators/gemm_scales.h"
#include "real/cuda/operators/multiply.h"
#include "real/cuda/operators/operators.h"

namespace plumbline::real::cuda {

Status matmul(const Call& call) {
  const auto& attributes = call.attributes<model::MatmulAttributes>();
  const TensorView a = call.in(0).view(), b = call.in(1).view();
  const std::int64_t rows = attributes.transpose_a ? a.columns : a.rows;
  if (call.kernel.parts == 1 && call.out(0).rows() != rows) PLUMBLINE_TRY(call.out(0).resize(rows));
  const Share own = share_of_rows(rows, call.kernel);
  GemmTask task = task_of(call);
  task.transpose_a = attributes.transpose_a;
  task.transpose_b = attributes.transpose_b;
  task.accumulate = attributes.accumulate;
  task.a = attributes.transpose_a ? columns_of(a, own.begin, own.count) : rows_of(a, own.begin, own.count);
  task.b = whole(b);
  task.c = rows_of(call.out(0).view(), own.begin, own.count);
  if (call.ins() > 2) task.bias = call.in(2).view();
  if (task.accumulate && task.depth() == 0) return {};
  const std::int64_t a_floats = scale_room(task.a);
  GemmScratch scratch;
  PLUMBLINE_TRY(take_gemm_scratch(call, a_floats + scale_room(task.b), scratch));
  if (library_takes(task)) {
    PLUMBLINE_TRY(lay_out_scales(task.a, scratch.scales, call.stream, task.a_scales));
    PLUMBLINE_TRY(lay_out_scales(task.b, scratch.scales + a_floats, call.stream, task.b_scales));
  }
  return multiply(call, task, scratch);
}

}  // namespace plumbline::real::cuda
