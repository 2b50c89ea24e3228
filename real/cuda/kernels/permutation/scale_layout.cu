#include "real/cuda/kernels/launch.cuh"
#include "real/cuda/kernels/permutation/permutation.h"

namespace plumbline::real::cuda {
namespace {

constexpr int block_threads = 256;

// Adjacent threads take adjacent rows, so that writes coalesce; reads, a 32nd of the operand, stay in the cache.
__global__ void rows_kernel(const float* from, float* to, std::int64_t rows, std::int64_t blocks) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x;
  if (at >= rows * blocks) return;
  const std::int64_t row = at % rows, block = at / rows;
  to[row_scale_index(row, block, rows)] = from[row * blocks + block];
}

__global__ void grouped_rows_kernel(const float* from, float* to, const RowGroups groups, std::int64_t rows,
                                    std::int64_t blocks) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x;
  if (at >= rows * blocks) return;
  const std::int64_t row = at % rows, block = at / rows;
  to[grouped_scale_index(groups, groups.offsets[groups.first] + row, block, blocks)] = from[row * blocks + block];
}

__global__ void squares_kernel(const float* from, float* to, std::int64_t block_rows, std::int64_t blocks,
                               std::int64_t padded) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x;
  if (at >= block_rows * padded) return;
  const std::int64_t row = at / padded, block = at % padded;
  to[at] = block < blocks ? from[row * blocks + block] : 0.0f;
}

unsigned grid_of(std::int64_t threads) { return static_cast<unsigned>((threads + block_threads - 1) / block_threads); }

}  // namespace

cudaError_t lay_out_rows(const float* from, float* to, std::int64_t rows, std::int64_t blocks, cudaStream_t stream) {
  if (rows * blocks == 0) return cudaSuccess;
  return launch(rows_kernel, {grid_of(rows * blocks), block_threads}, stream, from, to, rows, blocks);
}

cudaError_t lay_out_grouped_rows(const float* from, float* to, const RowGroups& groups, std::int64_t rows,
                                 std::int64_t blocks, cudaStream_t stream) {
  if (rows * blocks == 0) return cudaSuccess;
  return launch(grouped_rows_kernel, {grid_of(rows * blocks), block_threads}, stream, from, to, groups, rows, blocks);
}

cudaError_t lay_out_squares(const float* from, float* to, std::int64_t block_rows, std::int64_t blocks,
                            cudaStream_t stream) {
  const std::int64_t padded = padded_block_count(blocks * scale_tile);
  if (block_rows * padded == 0) return cudaSuccess;
  return launch(squares_kernel, {grid_of(block_rows * padded), block_threads}, stream, from, to, block_rows, blocks,
                padded);
}

}  // namespace plumbline::real::cuda
