#include <Eigen/Core>
#include <algorithm>
#include <cstdint>

#include "real/cuda/kernels/arithmetic.h"
#include "tests/support/host_gpu/cublaslt/gemms.h"
#include "tests/support/host_gpu/cublaslt/numbers.h"

namespace plumbline::tests::host_gpu {
namespace {

using Eigen::Index;
using Eigen::MatrixXf;
using real::cuda::scale_tile;

// Returns the scale of the elements from 128 * block on of a column; FP8 operands have columns along k.
float scale_at(const Scales& scales, const Layout& layout, Index column, Index block) {
  switch (scales.mode) {
    case CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F:
      return scales.values[real::cuda::row_scale_index(column, block, static_cast<Index>(layout.columns))];
    case CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F:
      return scales.values[real::cuda::square_scale_index(column, block, static_cast<Index>(layout.rows))];
    default:
      return *scales.values;
  }
}

void apply(const Scales& scales, const Layout& layout, MatrixXf& matrix) {
  if (scales.values == nullptr) return;
  for (Index column = 0; column < matrix.cols(); ++column)
    for (Index row = 0; row < matrix.rows(); row += scale_tile)
      matrix.col(column).segment(row, std::min<Index>(scale_tile, matrix.rows() - row)) *=
          scale_at(scales, layout, column, row / scale_tile);
}

// Returns the true values of a matrix of the batch as the GEMM reads it.
MatrixXf operand(const void* data, const Layout& layout, const Scales& scales, std::int32_t turn, Index index) {
  MatrixXf matrix(layout.rows, layout.columns);
  for (Index column = 0; column < matrix.cols(); ++column)
    read_numbers(layout.type, data, index * layout.stride + column * layout.leading, matrix.rows(),
                 matrix.col(column).data());
  apply(scales, layout, matrix);
  if (turn != CUBLAS_OP_N) matrix.transposeInPlace();
  return matrix;
}

Eigen::VectorXf bias_of(const Gemms& p) {
  Eigen::VectorXf bias = Eigen::VectorXf::Zero(static_cast<Index>(p.d.rows));
  const cudaDataType_t type = p.operation.bias_type < 0 ? p.d.type : cudaDataType_t(p.operation.bias_type);
  if (p.operation.epilogue == CUBLASLT_EPILOGUE_BIAS) read_numbers(type, p.operation.bias, 0, bias.size(), bias.data());
  return bias;
}

void finish(const Gemms& p, const Operands& o, const Eigen::VectorXf& bias, MatrixXf& sums, Index index) {
  Eigen::VectorXf before(sums.rows());
  for (Index column = 0; column < sums.cols(); ++column) {
    auto sum = sums.col(column);
    sum *= o.alpha;
    if (o.beta != 0) {
      read_numbers(p.c.type, o.c, index * p.c.stride + column * p.c.leading, sum.size(), before.data());
      sum += o.beta * before;
    }
    sum += bias;
    write_numbers(p.d.type, sum.data(), sum.size(), o.d, index * p.d.stride + column * p.d.leading);
  }
}

}  // namespace

void compute(const Gemms& p, const Operands& o) {
  const Eigen::VectorXf bias = bias_of(p);
  for (Index index = 0; index < p.d.batch; ++index) {
    const MatrixXf a = operand(o.a, p.a, p.operation.a_scales, p.operation.turn_a, index);
    const MatrixXf b = operand(o.b, p.b, p.operation.b_scales, p.operation.turn_b, index);
    MatrixXf sums = a * b;
    finish(p, o, bias, sums, index);
  }
}

}  // namespace plumbline::tests::host_gpu
