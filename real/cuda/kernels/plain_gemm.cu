#include "real/cuda/kernels/element.h"
#include "real/cuda/kernels/kernels.h"
#include "real/cuda/kernels/launch.cuh"

namespace plumbline::real::cuda {
namespace {

constexpr int tile = 16;  // of C, and of k: one block of 256 threads

__device__ float load(const MatrixPart& x, bool transposed, std::int64_t row, std::int64_t column) {
  const std::int64_t r = transposed ? column : row, c = transposed ? row : column;
  return r < x.rows && c < x.columns ? load_one(x.tensor, x.row + r, x.column + c) : 0.0f;
}

__global__ void plain_gemm_kernel(const PlainGemm p, std::int64_t depth, std::int64_t tiles_across) {
  __shared__ float left[tile][tile + 1], right[tile][tile + 1];
  const int i = static_cast<int>(threadIdx.y), j = static_cast<int>(threadIdx.x);
  const std::int64_t row = blockIdx.x / tiles_across * tile + i;
  const std::int64_t column = blockIdx.x % tiles_across * tile + j;
  float sum = 0.0f;
  for (std::int64_t k = 0; k < depth; k += tile) {
    left[i][j] = load(p.a, p.transpose_a, row, k + j);
    right[i][j] = load(p.b, p.transpose_b, k + i, column);
    __syncthreads();
#pragma unroll
    for (int l = 0; l < tile; ++l) sum += left[i][l] * right[l][j];
    __syncthreads();
  }
  if (row >= p.c.rows || column >= p.c.columns) return;
  sum *= p.factor;
  if (p.bias.data != nullptr) sum += load_one(p.bias, column, 0);
  if (p.accumulate) sum += load_one(p.c.tensor, p.c.row + row, p.c.column + column);
  store_one(p.c.tensor, p.c.row + row, p.c.column + column, sum);
}

}  // namespace

cudaError_t plain_gemm(const PlainGemm& gemm, cudaStream_t stream) {
  const std::int64_t down = (gemm.c.rows + tile - 1) / tile, across = (gemm.c.columns + tile - 1) / tile;
  if (down * across == 0) return cudaSuccess;
  const std::int64_t depth = gemm.transpose_a ? gemm.a.rows : gemm.a.columns;
  return launch(plain_gemm_kernel, {static_cast<unsigned>(down * across), dim3(tile, tile)}, stream, gemm, depth,
                across);
}

}  // namespace plumbline::real::cuda
