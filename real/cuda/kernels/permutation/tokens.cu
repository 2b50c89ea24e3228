#include "real/cuda/kernels/arithmetic/tokens.h"
#include "real/cuda/kernels/launch.cuh"
#include "real/cuda/kernels/permutation/permutation.h"
#include "real/cuda/kernels/threads.cuh"
#include "real/cuda/kernels/vec8.cuh"

namespace plumbline::real::cuda {
namespace {

constexpr int block_threads = 128;
constexpr int block_tiles = block_threads / tile_lanes;
constexpr int block_warps = block_threads / warp_size;

// Returns a thread's column, where gridDim.y blocks share a row.
__device__ std::int64_t own_column() {
  const std::int64_t tile = static_cast<std::int64_t>(blockIdx.y) * block_tiles + threadIdx.x / tile_lanes;
  return tile * scale_tile + threadIdx.x % tile_lanes * tile_vector;
}

dim3 rows_and_columns(std::int64_t rows, std::int64_t columns) {
  return {static_cast<unsigned>(rows), static_cast<unsigned>((tiles_of(columns) + block_tiles - 1) / block_tiles)};
}

__device__ void add_to(Vec8& sum, const Vec8& values) {
#pragma unroll
  for (int i = 0; i < tile_vector; ++i) sum.v[i] += values.v[i];
}

// Each warp finds the place of one token.
__global__ void order_kernel(const std::int32_t* ids, std::int64_t tokens, std::int32_t* order) {
  const std::int64_t token = static_cast<std::int64_t>(blockIdx.x) * block_warps + threadIdx.x / warp_size;
  if (token >= tokens) return;
  const std::int32_t id = ids[token];
  int before = 0;
  for (std::int64_t other = threadIdx.x % warp_size; other < tokens; other += warp_size)
    before += stands_before(ids[other], other, id, token) ? 1 : 0;
  before = __reduce_add_sync(0xffffffffu, before);
  if (threadIdx.x % warp_size == 0) order[before] = static_cast<std::int32_t>(token);
}

// The block of an id's first token adds all of its tokens.
__global__ void add_by_id_kernel(TensorView dx, const std::int32_t* ids, const std::int32_t* order, std::int64_t first,
                                 TensorView table) {
  const std::int64_t place = blockIdx.x, id = ids[order[place]], row = id - first;
  if (row < 0 || row >= table.rows || (place > 0 && ids[order[place - 1]] == id)) return;
  const std::int64_t column = own_column();
  Vec8 sum = load_vec8(table, row, column);
#pragma unroll 4
  for (std::int64_t i = place; i < dx.rows && ids[order[i]] == id; ++i) add_to(sum, load_vec8(dx, order[i], column));
  store_vec8(table, row, column, sum);
}

__global__ void add_positions_kernel(TensorView x, TensorView table, std::int64_t length, const std::int32_t* earlier,
                                     TensorView y) {
  const std::int64_t row = blockIdx.x, column = own_column();
  Vec8 sum = load_vec8(x, row, column);
  const std::int64_t first = earlier == nullptr ? 0 : earlier[row / length];
  add_to(sum, load_vec8(table, first + row % length, column));
  store_vec8(y, row, column, sum);
}

__global__ void add_by_position_kernel(TensorView dx, std::int64_t length, TensorView table) {
  const std::int64_t column = own_column();
  Vec8 sum = load_vec8(table, blockIdx.x, column);
#pragma unroll 4
  for (std::int64_t row = blockIdx.x; row < dx.rows; row += length) add_to(sum, load_vec8(dx, row, column));
  store_vec8(table, blockIdx.x, column, sum);
}

__global__ void shift_kernel(const std::int32_t* ids, std::int64_t tokens, std::int64_t distance, std::int64_t length,
                             std::int32_t* to) {
  for (std::int64_t token = thread_index(); token < tokens; token += thread_count())
    to[token] = ids[shifted_token(token, distance, length)];
}

}  // namespace

cudaError_t order_by_id(const std::int32_t* ids, std::int64_t tokens, std::int32_t* order, cudaStream_t stream) {
  if (tokens == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>((tokens + block_warps - 1) / block_warps);
  return launch(order_kernel, {blocks, block_threads}, stream, ids, tokens, order);
}

cudaError_t add_rows_by_id(const TensorView& dx, const std::int32_t* ids, const std::int32_t* order, std::int64_t first,
                           const TensorView& table, cudaStream_t stream) {
  if (dx.rows == 0) return cudaSuccess;
  return launch(add_by_id_kernel, {rows_and_columns(dx.rows, dx.columns), block_threads}, stream, dx, ids, order, first,
                table);
}

cudaError_t add_positions(const TensorView& x, const TensorView& table, std::int64_t length,
                          const std::int32_t* earlier, const TensorView& y, cudaStream_t stream) {
  if (x.rows == 0) return cudaSuccess;
  return launch(add_positions_kernel, {rows_and_columns(x.rows, x.columns), block_threads}, stream, x, table, length,
                earlier, y);
}

cudaError_t add_rows_by_position(const TensorView& dx, std::int64_t length, const TensorView& table,
                                 cudaStream_t stream) {
  if (dx.rows == 0) return cudaSuccess;
  const std::int64_t rows = length < dx.rows ? length : dx.rows;
  return launch(add_by_position_kernel, {rows_and_columns(rows, dx.columns), block_threads}, stream, dx, length, table);
}

cudaError_t shift_ids(const std::int32_t* ids, std::int64_t tokens, std::int64_t distance, std::int64_t length,
                      std::int32_t* to, cudaStream_t stream) {
  if (tokens == 0) return cudaSuccess;
  return launch(shift_kernel, {grid_for(tokens, block_threads), block_threads}, stream, ids, tokens, distance, length,
                to);
}

}  // namespace plumbline::real::cuda
