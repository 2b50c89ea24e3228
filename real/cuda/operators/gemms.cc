// GEMMs of tokens and weights. If two streams share one, each computes its own rows, so that nothing is copied.
#include "real/cuda/kernels/permutation/permutation.h"
#include "real/cuda/operators/detail/multiply.h"
#include "real/cuda/operators/operators.h"

namespace plumbline::real::cuda {
namespace {

// This call's experts and their rows.
struct Experts {
  const std::vector<std::int64_t>& offsets;
  Share own;

  std::int64_t count() const { return static_cast<std::int64_t>(offsets.size()) - 1; }
  std::int64_t row(std::int64_t expert) const { return offsets[static_cast<std::size_t>(expert)]; }
  std::int64_t first_row() const { return row(own.begin); }
  std::int64_t rows() const { return row(own.begin + own.count) - first_row(); }
};

std::int64_t rows_of_expert(const Experts& experts, std::int64_t e) { return experts.row(e + 1) - experts.row(e); }

// C[rows_e, :] = A[rows_e, :] op(B[e]).
GemmTask forward_task(const Call& call, const Experts& experts, std::int64_t e) {
  const auto& attributes = call.attributes<model::MatmulAttributes>();
  const TensorView b = call.in(1).view();
  const std::int64_t height = b.rows / experts.count(), rows = rows_of_expert(experts, e);
  GemmTask task = task_of(call);
  task.transpose_b = attributes.transpose_b;
  task.routed = Routed::rows;
  task.a = rows_of(call.in(0).view(), experts.row(e), rows);
  task.b = rows_of(b, e * height, height);
  task.c = rows_of(call.out(0).view(), experts.row(e), rows);
  return task;
}

// C[e] += op(A) op(B), summed over rows_e.
GemmTask gradient_task(const Call& call, const Experts& experts, std::int64_t e) {
  const auto& attributes = call.attributes<model::MatmulAttributes>();
  const TensorView a = call.in(0).view(), b = call.in(1).view(), c = call.out(0).view();
  const std::int64_t first = experts.row(e), rows = rows_of_expert(experts, e), height = c.rows / experts.count();
  GemmTask task = task_of(call);
  task.transpose_a = attributes.transpose_a;
  task.transpose_b = attributes.transpose_b;
  task.accumulate = true;
  task.routed = Routed::depth;
  task.a = attributes.transpose_a ? rows_of(a, first, rows) : columns_of(a, first, rows);
  task.b = attributes.transpose_b ? columns_of(b, first, rows) : rows_of(b, first, rows);
  task.c = rows_of(c, e * height, height);
  return task;
}

Status forward(const Call& call, const Experts& experts) {
  const TensorView a = call.in(0).view(), b = call.in(1).view();
  if (call.kernel.parts == 1 && call.out(0).rows() != a.rows) PLUMBLINE_TRY(call.out(0).resize(a.rows));
  const std::int64_t height = b.rows / experts.count(), blocks = tiles_of(a.columns);
  const MatrixPart tokens = rows_of(a, experts.first_row(), experts.rows());
  const MatrixPart weights = rows_of(b, experts.own.begin * height, experts.own.count * height);
  const std::int64_t a_floats = scale_room(tokens);
  GemmScratch scratch;
  PLUMBLINE_TRY(take_gemm_scratch(call, a_floats + scale_room(weights), scratch));
  const bool tiles = a.format == Format::fp8_tile;
  if (tiles) {
    const RowGroups groups{call.in(2).data<const std::int32_t>(), static_cast<std::int32_t>(experts.own.begin),
                           static_cast<std::int32_t>(experts.own.begin + experts.own.count)};
    PLUMBLINE_TRY(
        outcome(lay_out_grouped_rows(stored_scales(tokens), scratch.scales, groups, tokens.rows, blocks, call.stream),
                "laying out scales"));
  }
  const float* weight_scales = nullptr;
  PLUMBLINE_TRY(lay_out_scales(weights, scratch.scales + a_floats, call.stream, weight_scales));
  const std::int64_t weight_step = b.format == Format::fp8_block ? tiles_of(height) * square_row(b) : 0;
  for (std::int64_t e = experts.own.begin; e < experts.own.begin + experts.own.count; ++e) {
    GemmTask task = forward_task(call, experts, e);
    task.a_scales = tiles ? scratch.scales + (experts.row(e) - experts.first_row()) * blocks : a.scales;
    if (weight_scales != nullptr) task.b_scales = weight_scales + (e - experts.own.begin) * weight_step;
    PLUMBLINE_TRY(multiply(call, task, scratch));
  }
  return {};
}

// Scales along the tokens; once laid out, those of an expert's tiles are contiguous.
const float* tile_scales(const TensorView& tensor, const float* laid_out, std::int64_t first) {
  return tensor.format == Format::fp8_tile ? laid_out + first / scale_tile * tensor.rows : laid_out;
}

Status weight_gradient(const Call& call, const Experts& experts) {
  const TensorView a = call.in(0).view(), b = call.in(1).view();
  const std::int64_t a_floats = scale_room(whole(a));
  GemmScratch scratch;
  PLUMBLINE_TRY(take_gemm_scratch(call, a_floats + scale_room(whole(b)), scratch));
  const float* a_scales = nullptr;
  const float* b_scales = nullptr;
  PLUMBLINE_TRY(lay_out_scales(whole(a), scratch.scales, call.stream, a_scales));
  PLUMBLINE_TRY(lay_out_scales(whole(b), scratch.scales + a_floats, call.stream, b_scales));
  for (std::int64_t e = experts.own.begin; e < experts.own.begin + experts.own.count; ++e) {
    GemmTask task = gradient_task(call, experts, e);
    if (task.depth() == 0) continue;
    task.a_scales = tile_scales(a, a_scales, experts.row(e));
    task.b_scales = tile_scales(b, b_scales, experts.row(e));
    PLUMBLINE_TRY(multiply(call, task, scratch));
  }
  return {};
}

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

// The experts' GEMMs: one call of cuBLASLt after the other on the stream, by the host's copy of the offsets. One kernel
// for all of them is not faster at the sizes of training on Hopper (github.com/pytorch/pytorch/issues/163425), and
// cuBLASLt has none before CUDA 13.3.
Status grouped_matmul(const Call& call) {
  const std::vector<std::int64_t>& offsets = call.in(2).known;
  if (static_cast<std::int64_t>(offsets.size()) != call.in(2).elements())
    return {"the host lacks the offsets of the experts"};
  const Experts experts{offsets, share_of(static_cast<std::int64_t>(offsets.size()) - 1, call.kernel)};
  return call.attributes<model::MatmulAttributes>().accumulate ? weight_gradient(call, experts)
                                                               : forward(call, experts);
}

// The three GEMMs of attention over stored scores. Each sequence has one launch for all key-value heads, repeated for
// each of the query heads that share one.
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
