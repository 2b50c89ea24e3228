#include "real/cuda/kernels/kernels.h"
#include "real/cuda/kernels/launch.cuh"
#include "real/cuda/kernels/row_teams.cuh"

namespace plumbline::real::cuda {
namespace {

constexpr int block_warps = 8;
constexpr int block_threads = block_warps * warp_size;
constexpr std::int64_t block_columns = warp_size * tile_vector;

// Each lane has a column; the warps of a block take parts in turn.
__global__ void add_partial_sums_kernel(const float* partial, std::int64_t parts, std::int64_t stride, TensorView to) {
  __shared__ float of_warps[block_warps][warp_size];
  const unsigned lane = threadIdx.x % warp_size, warp = threadIdx.x / warp_size;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * warp_size + lane;
  float sum = 0.0f;
  if (column < to.columns) {
#pragma unroll 8
    for (std::int64_t part = warp; part < parts; part += block_warps) sum += partial[part * stride + column];
  }
  of_warps[warp][lane] = sum;
  __syncthreads();
  if (warp > 0 || column >= to.columns) return;
  for (int other = 1; other < block_warps; ++other) sum += of_warps[other][lane];
  store_one(to, 0, column, load_one(to, 0, column) + sum);
}

// Each warp has block_columns columns and walks over rows; the warps' sums are added in order.
template <class View>
__global__ void column_sum_kernel(TensorView x_, float* partial) {
  __shared__ float of_warps[block_warps][block_columns];
  const View x(x_);
  const unsigned lane = threadIdx.x % warp_size, warp = threadIdx.x / warp_size;
  const std::int64_t first = blockIdx.x * block_columns, column = first + lane * tile_vector;
  Vec8 sums{};
#pragma unroll 4
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.y) * block_warps + warp; row < x.rows;
       row += static_cast<std::int64_t>(gridDim.y) * block_warps) {
    const Vec8 values = load_vec8(x, row, column);
#pragma unroll
    for (int i = 0; i < tile_vector; ++i) sums.v[i] += values.v[i];
  }
#pragma unroll
  for (int i = 0; i < tile_vector; ++i) of_warps[warp][lane * tile_vector + i] = sums.v[i];
  __syncthreads();
  static_assert(block_threads == block_columns, "a thread adds up a column");
  float sum = 0.0f;
  for (int other = 0; other < block_warps; ++other) sum += of_warps[other][threadIdx.x];
  if (first + threadIdx.x < x.columns) partial[blockIdx.y * x.columns + first + threadIdx.x] = sum;
}

// Returns the blocks per column range: enough to fill the device eight times, if there are as many rows.
unsigned row_blocks(const TensorView& x, int sms) {
  const std::int64_t ranges = (x.columns + block_columns - 1) / block_columns;
  const std::int64_t wanted = (static_cast<std::int64_t>(sms) * 8 + ranges - 1) / ranges;
  const std::int64_t most = (x.rows + block_warps - 1) / block_warps;
  return static_cast<unsigned>(wanted < most ? wanted : most);
}

}  // namespace

cudaError_t add_partial_sums(const float* partial, std::int64_t parts, std::int64_t stride, const TensorView& to,
                             cudaStream_t stream) {
  const TensorView row = as_row(to);
  const auto blocks = static_cast<unsigned>((row.columns + warp_size - 1) / warp_size);
  if (blocks == 0) return cudaSuccess;
  return launch(add_partial_sums_kernel, {blocks, block_threads}, stream, partial, parts, stride, row);
}

cudaError_t column_sum(const TensorView& x, const TensorView& to, float* scratch, int sms, cudaStream_t stream) {
  if (x.elements() == 0) return cudaSuccess;
  const dim3 grid(static_cast<unsigned>((x.columns + block_columns - 1) / block_columns), row_blocks(x, sms));
  const auto kernel = all_bf16(x) ? column_sum_kernel<Bf16View> : column_sum_kernel<TensorView>;
  const cudaError_t error = launch(kernel, {grid, block_threads}, stream, x, scratch);
  if (error != cudaSuccess) return error;
  return add_partial_sums(scratch, grid.y, x.columns, to, stream);
}

std::int64_t column_sum_scratch(const TensorView& x, int sms) {
  return row_blocks(x, sms) * x.columns * static_cast<std::int64_t>(sizeof(float));
}

}  // namespace plumbline::real::cuda
