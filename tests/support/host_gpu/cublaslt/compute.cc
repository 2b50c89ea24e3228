#include <library_types.h>

#include <Eigen/Core>
#include <algorithm>
#include <cstdint>

#include "real/cuda/kernels/arithmetic.h"
#include "tests/support/host_gpu/cublaslt/gemms.h"

namespace plumbline::tests::host_gpu {
namespace {

using Eigen::Index;
using Eigen::MatrixXf;
using real::cuda::scale_tile;

template <typename Stored, typename Load>
void read(const void* array, std::int64_t first, std::int64_t count, float* to, Load load) {
  const Stored* const from = static_cast<const Stored*>(array) + first;
  std::transform(from, from + count, to, load);
}

template <typename Stored, typename Store>
void write(const float* from, std::int64_t count, void* array, std::int64_t first, Store store) {
  std::transform(from, from + count, static_cast<Stored*>(array) + first, store);
}

float same(float value) { return value; }

// Reads `count` numbers of an array, from the one at `first` on. Types are FP32, BF16, FP16, and E4M3 for reading only.
void read_numbers(cudaDataType_t type, const void* array, std::int64_t first, std::int64_t count, float* to) {
  if (type == CUDA_R_32F) read<float>(array, first, count, to, same);
  if (type == CUDA_R_16BF) read<std::uint16_t>(array, first, count, to, real::cuda::bf16_to_float);
  if (type == CUDA_R_16F) read<std::uint16_t>(array, first, count, to, real::cuda::fp16_to_float);
  if (type == CUDA_R_8F_E4M3) read<std::uint8_t>(array, first, count, to, real::cuda::fp8_to_float);
}

void write_numbers(cudaDataType_t type, const float* from, std::int64_t count, void* array, std::int64_t first) {
  if (type == CUDA_R_32F) write<float>(from, count, array, first, same);
  if (type == CUDA_R_16BF) write<std::uint16_t>(from, count, array, first, real::cuda::float_to_bf16);
  if (type == CUDA_R_16F) write<std::uint16_t>(from, count, array, first, real::cuda::float_to_fp16);
}

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
