#include "real/cuda/kernels/arithmetic/byte_transpose.h"
#include "real/cuda/kernels/launch.cuh"
#include "real/cuda/kernels/permutation/transpose.h"
#include "real/cuda/kernels/vec8.cuh"

namespace plumbline::real::cuda {
namespace {

constexpr int block_threads = 256;
constexpr int extent = scale_tile;  // of a block in both directions, in bytes
constexpr int words = extent / 4;   // of a row of a block
constexpr int chunk = 16;           // bytes that a thread moves at once

// Sixteen bytes of a row; the first `count` belong to it.
struct Chunk {
  std::uint32_t word[chunk / 4];
};
__device__ Chunk load_chunk(const std::uint8_t* from, std::int64_t count) {
  Chunk result{};
  if (count >= chunk && reinterpret_cast<std::uintptr_t>(from) % chunk == 0) {
    memcpy(&result, __builtin_assume_aligned(from, chunk), sizeof result);
    return result;
  }
#pragma unroll
  for (int i = 0; i < chunk; ++i)
    if (i < count) result.word[i / 4] |= static_cast<std::uint32_t>(from[i]) << i % 4 * 8;
  return result;
}
__device__ void store_chunk(std::uint8_t* to, std::int64_t count, const Chunk& values) {
  if (count >= chunk && reinterpret_cast<std::uintptr_t>(to) % chunk == 0) {
    memcpy(__builtin_assume_aligned(to, chunk), &values, sizeof values);
    return;
  }
#pragma unroll
  for (int i = 0; i < chunk; ++i)
    if (i < count) to[i] = static_cast<std::uint8_t>(values.word[i / 4] >> i % 4 * 8);
}

// Each thread block transposes a block of 128 x 128.
__global__ void __launch_bounds__(block_threads) turn_blocks_kernel(TensorView x, TensorView y) {
  __shared__ std::uint32_t held[extent][words + 1];
  const std::int64_t rows = x.matrix_rows, columns = x.columns, matrix = blockIdx.z;
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.y) * extent;
  const std::int64_t first_column = static_cast<std::int64_t>(blockIdx.x) * extent;
  const auto* from = static_cast<const std::uint8_t*>(x.data) + matrix * rows * columns;
  auto* to = static_cast<std::uint8_t*>(y.data) + matrix * rows * columns;

  constexpr int chunks = extent / chunk;
  const int part = static_cast<int>(threadIdx.x) % chunks, lane = static_cast<int>(threadIdx.x) / chunks;
#pragma unroll
  for (int row = lane; row < extent; row += block_threads / chunks) {
    Chunk values{};
    if (first_row + row < rows) {
      const std::int64_t column = first_column + part * chunk;
      values = load_chunk(from + (first_row + row) * columns + column, columns - column);
    }
#pragma unroll
    for (int i = 0; i < chunk / 4; ++i) held[row][part * (chunk / 4) + i] = values.word[i];
  }
  __syncthreads();
  // Four columns of sixteen rows: eight adjacent lanes write a whole row of the result.
  Chunk transposed[4];
#pragma unroll
  for (int quarter = 0; quarter < chunk / 4; ++quarter) {
    std::uint32_t four[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) four[i] = held[part * chunk + quarter * 4 + i][lane];
    turn_bytes(four);
#pragma unroll
    for (int i = 0; i < 4; ++i) transposed[i].word[quarter] = four[i];
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::int64_t column = first_column + lane * 4 + i, row = first_row + part * chunk;
    if (column < columns) store_chunk(to + column * rows + row, rows - row, transposed[i]);
  }
  if (threadIdx.x > 0) return;
  const std::int64_t across = tiles_of(columns), down = tiles_of(rows);
  y.scales[(matrix * across + blockIdx.x) * down + blockIdx.y] =
      x.scales[(matrix * down + blockIdx.y) * across + blockIdx.x];
}

}  // namespace

cudaError_t turn_blocks(const TensorView& x, const TensorView& y, cudaStream_t stream) {
  if (x.elements() == 0) return cudaSuccess;
  TensorView from = x;
  if (from.matrix_rows == 0) from.matrix_rows = from.rows;
  const dim3 grid(static_cast<unsigned>(tiles_of(x.columns)), static_cast<unsigned>(tiles_of(from.matrix_rows)),
                  static_cast<unsigned>(x.rows / from.matrix_rows));
  return launch(turn_blocks_kernel, {grid, block_threads}, stream, from, y);
}

}  // namespace plumbline::real::cuda
