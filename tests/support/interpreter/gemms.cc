#include "tests/support/interpreter/operators.h"

namespace plumbline::tests {
namespace {

Matrix transposed(const Matrix& matrix, bool transpose) {
  if (transpose) return matrix.transpose();
  return matrix;
}

// The weight gradient sums over one expert's rows, which the transposes may have made columns.
void grouped_weight_gradient(Call& call) {
  const auto& attributes = call.attributes<model::MatmulAttributes>();
  const Matrix a = transposed(call.in(0), attributes.transpose_a);  // [m, N]
  const Matrix b = transposed(call.in(1), attributes.transpose_b);  // [N, n]
  const Matrix& offsets = call.in(2);
  const Index height = a.rows();
  for (Index e = 0; e + 1 < offsets.rows(); ++e) {
    const auto from = static_cast<Index>(offsets(e));
    const auto rows = static_cast<Index>(offsets(e + 1)) - from;
    call.out(0).middleRows(e * height, height) += call.gemm(a.middleCols(from, rows), b.middleRows(from, rows));
  }
}

}  // namespace

void matmul(Call& call) {
  const auto& attributes = call.attributes<model::MatmulAttributes>();
  Matrix gemm =
      call.gemm(transposed(call.in(0), attributes.transpose_a), transposed(call.in(1), attributes.transpose_b));
  if (call.ins() > 2) gemm.rowwise() += call.in(2).col(0).transpose();
  if (attributes.accumulate)
    call.out(0) += gemm;
  else
    call.out(0) = std::move(gemm);
}

void head_matmul(Call& call) {
  const auto& a = call.attributes<model::HeadMatmulAttributes>();
  const Matrix &x = call.in(0), &w = call.in(1);
  const Index out = w.rows() / a.heads, in = w.cols();
  call.out(0).resize(x.rows(), a.heads * (out + a.copied));
  for (Index h = 0; h < a.heads; ++h) {
    const Index from = h * (in + a.copied), to = h * (out + a.copied);
    call.out(0).middleCols(to, out) = call.gemm(x.middleCols(from, in), w.middleRows(h * out, out).transpose());
    call.out(0).middleCols(to + out, a.copied) = x.middleCols(from + in, a.copied);
  }
}

void head_matmul_grad(Call& call) {
  const auto& a = call.attributes<model::HeadMatmulAttributes>();
  const Matrix &dy = call.in(0), &w = call.in(1);
  const Index out = w.rows() / a.heads, in = w.cols();
  call.out(0).resize(dy.rows(), a.heads * (in + a.copied));
  for (Index h = 0; h < a.heads; ++h) {
    const Index from = h * (out + a.copied), to = h * (in + a.copied);
    call.out(0).middleCols(to, in) = call.gemm(dy.middleCols(from, out), w.middleRows(h * out, out));
    call.out(0).middleCols(to + in, a.copied) = dy.middleCols(from + out, a.copied);
  }
}

void head_weight_grad(Call& call) {
  const auto& a = call.attributes<model::HeadMatmulAttributes>();
  const Matrix &dy = call.in(0), &x = call.in(1);
  const Index out = call.out(0).rows() / a.heads, in = call.out(0).cols();
  for (Index h = 0; h < a.heads; ++h)
    call.out(0).middleRows(h * out, out) +=
        call.gemm(dy.middleCols(h * (out + a.copied), out).transpose(), x.middleCols(h * (in + a.copied), in));
}

void grouped_matmul(Call& call) {
  const auto& attributes = call.attributes<model::MatmulAttributes>();
  if (attributes.accumulate) return grouped_weight_gradient(call);
  const Matrix& a = call.in(0);
  const Matrix& offsets = call.in(2);
  const Index experts = offsets.rows() - 1;
  const Index height = call.in(1).rows() / experts;
  call.out(0) = Matrix::Zero(a.rows(), attributes.transpose_b ? height : call.in(1).cols());
  for (Index e = 0; e < experts; ++e) {
    const auto from = static_cast<Index>(offsets(e));
    const auto rows = static_cast<Index>(offsets(e + 1)) - from;
    const Matrix weight = transposed(call.in(1).middleRows(e * height, height), attributes.transpose_b);
    call.out(0).middleRows(from, rows) = call.gemm(a.middleRows(from, rows), weight);
  }
}

}  // namespace plumbline::tests
