// The three GEMMs of attention over stored scores. Each sequence has one launch for all key-value heads, repeated for
// each of the query heads that share one.
#include "real/cuda/operators/multiply.h"
#include "real/cuda/operators/operators.h"

namespace plumbline::real::cuda {
namespace {

// The columns of a tensor's heads: query head `member` of the first key-value head, and the distance to that of the
// next.
struct Heads {
  std::int64_t column = 0, next = 0, width = 0;
};

MatrixPart sequence_of(const TensorView& tensor, std::int64_t first, std::int64_t length, const Heads& heads) {
  return {tensor, first, heads.column, length, heads.width};
}

GemmTask task_of_member(const Call& call, std::int64_t first, std::int64_t member) {
  const auto& a = call.attributes<model::BatchedMatmulAttributes>();
  const std::int64_t group = a.query_heads / a.key_value_heads, length = a.sequence_length;
  const Heads scores{member * length, group * length, length};
  const Heads own{member * a.dim, group * a.dim, a.dim};
  const Heads shared{0, a.dim, a.dim};
  const bool by_rows = a.form == model::BatchedForm::rows, by_columns = a.form == model::BatchedForm::columns;
  const Heads left = by_rows ? own : scores, right = by_columns ? own : shared;
  const Heads result = by_rows ? scores : by_columns ? shared : own;
  GemmTask task = task_of(call);
  task.a = sequence_of(call.in(0).view(), first, length, left);
  task.b = sequence_of(call.in(1).view(), first, length, right);
  task.c = sequence_of(call.out(0).view(), first, length, result);
  task.transpose_a = by_columns;
  task.transpose_b = by_rows;
  task.accumulate = by_columns && member > 0;
  task.factor = static_cast<float>(a.scale);
  task.batch = a.key_value_heads;
  task.a_next = left.next;
  task.b_next = right.next;
  task.c_next = result.next;
  return task;
}

}  // namespace

Status batched_matmul(const Call& call) {
  const auto& a = call.attributes<model::BatchedMatmulAttributes>();
  GemmScratch scratch;
  PLUMBLINE_TRY(take_gemm_scratch(call, 0, scratch));
  for (std::int64_t first = 0; first < call.in(0).rows(); first += a.sequence_length) {
    for (std::int64_t member = 0; member < a.query_heads / a.key_value_heads; ++member)
      PLUMBLINE_TRY(multiply(call, task_of_member(call, first, member), scratch));
  }
  return {};
}

}  // namespace plumbline::real::cuda
