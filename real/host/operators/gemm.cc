#include "real/host/operators/gemm.h"

#include "real/host/rounding.h"

namespace plumbline::real::host {
namespace {

// Computes C row by row and rounds after each multiply-add; the columns of a row are independent.
void multiply_in_fp16(const Operand& a, const Operand& b, Part c, const Gemm& gemm) {
  const Index depth = a.transposed ? a.matrix.rows() : a.matrix.cols();
  thread_local std::vector<float> sums;
  sums.resize(static_cast<std::size_t>(c.cols()));
  for (Index i = 0; i < c.rows(); ++i) {
    for (Index j = 0; j < c.cols(); ++j) sums[static_cast<std::size_t>(j)] = gemm.accumulate ? c(i, j) / gemm.scale : 0;
    for (Index k = 0; k < depth; ++k) {
      const float factor = a.transposed ? a.matrix(k, i) : a.matrix(i, k);
      for (Index j = 0; j < c.cols(); ++j)
        sums[static_cast<std::size_t>(j)] += factor * (b.transposed ? b.matrix(j, k) : b.matrix(k, j));
      round_to(model::DataType::fp16, sums);
    }
    for (Index j = 0; j < c.cols(); ++j) c(i, j) = gemm.scale * sums[static_cast<std::size_t>(j)];
  }
}

template <class A, class B>
void multiply_as(const A& a, const B& b, Part c, const Gemm& gemm) {
  if (gemm.accumulate)
    c.noalias() += gemm.scale * (a * b);
  else
    c.noalias() = gemm.scale * (a * b);
}

}  // namespace

void multiply(const Operand& a, const Operand& b, Part c, const Gemm& gemm) {
  if (c.size() == 0) return;
  if (gemm.accumulation == model::DataType::fp16) return multiply_in_fp16(a, b, c, gemm);
  if (a.transposed && b.transposed) return multiply_as(a.matrix.transpose(), b.matrix.transpose(), c, gemm);
  if (a.transposed) return multiply_as(a.matrix.transpose(), b.matrix, c, gemm);
  if (b.transposed) return multiply_as(a.matrix, b.matrix.transpose(), c, gemm);
  multiply_as(a.matrix, b.matrix, c, gemm);
}

}  // namespace plumbline::real::host
