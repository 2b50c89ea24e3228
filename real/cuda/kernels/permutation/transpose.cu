#include "real/cuda/kernels/arithmetic/permutation.h"
#include "real/cuda/kernels/kernels.h"
#include "real/cuda/kernels/launch.cuh"
#include "real/cuda/kernels/permutation/permutation.h"
#include "real/cuda/kernels/row_teams.cuh"
#include "real/cuda/kernels/vec8.cuh"

namespace plumbline::real::cuda {
namespace {

constexpr int block_threads = 256;
constexpr int tile_rows = 128;  // of x: one tile of y's scales
constexpr int tile_columns = 64;
// One word is unused after every 32, and rows are 5 banks apart (133 mod 32). The eight values that a lane reads are
// then in different banks, except for two lanes of a warp.
constexpr int pitch = 133;
__device__ constexpr int place(int row) { return row + row / 32; }

struct Transpose {
  TensorView x, y;
  const std::int32_t* row_map;
  std::int64_t rows, columns;  // of a matrix of x

  // Returns the source of row `row` of matrix `matrix`; negative if there is none.
  __device__ std::int64_t source(std::int64_t matrix, std::int64_t row) const {
    if (row >= rows) return -1;
    const std::int64_t at = row_map != nullptr ? row_map[row] : matrix * rows + row;
    return at < x.rows ? at : -1;
  }
};

template <class From, class To>
__global__ void __launch_bounds__(block_threads) transpose_kernel(Transpose t) {
  __shared__ float held[tile_columns][pitch];
  const From x(t.x);
  const To y(t.y);
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.y) * tile_rows;
  const std::int64_t first_column = static_cast<std::int64_t>(blockIdx.x) * tile_columns;
  const std::int64_t matrix = blockIdx.z;

  constexpr int vectors_per_row = tile_columns / tile_vector;
  constexpr int rows_at_once = block_threads / vectors_per_row;
  constexpr int passes = tile_rows / rows_at_once;
  const int column = static_cast<int>(threadIdx.x) % vectors_per_row * tile_vector;
  Vec8 values[passes];
#pragma unroll
  for (int pass = 0; pass < passes; ++pass) {
    const int row = pass * rows_at_once + static_cast<int>(threadIdx.x) / vectors_per_row;
    const std::int64_t source = t.source(matrix, first_row + row);
    values[pass] = source >= 0 ? load_vec8(x, source, first_column + column) : Vec8{};
  }
#pragma unroll
  for (int pass = 0; pass < passes; ++pass) {
    const int row = pass * rows_at_once + static_cast<int>(threadIdx.x) / vectors_per_row;
#pragma unroll
    for (int i = 0; i < tile_vector; ++i) held[column + i][place(row)] = values[pass].v[i];
  }
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % tile_lanes;
  for (int c = static_cast<int>(threadIdx.x) / tile_lanes; c < tile_columns; c += block_threads / tile_lanes) {
    if (first_column + c >= t.columns) break;
    Vec8 transposed;
#pragma unroll
    for (int i = 0; i < tile_vector; ++i) transposed.v[i] = held[c][place(lane * tile_vector) + i];
    store_vec8(y, matrix * t.columns + first_column + c, first_row + lane * tile_vector, transposed);
  }
}

template <class From, class To>
cudaError_t launch(const Transpose& t, cudaStream_t stream) {
  const auto count = [](std::int64_t extent, int tile) { return static_cast<unsigned>((extent + tile - 1) / tile); };
  const dim3 grid(count(t.columns, tile_columns), count(t.rows, tile_rows),
                  static_cast<unsigned>(t.y.rows / t.columns));
  return launch(transpose_kernel<From, To>, {grid, block_threads}, stream, t);
}

template <Format kFrom, Format kTo>
bool try_launch(const Transpose& t, cudaStream_t stream, cudaError_t& error) {
  if (!is_aligned(t.x, kFrom) || !is_aligned(t.y, kTo)) return false;
  error = launch<Aligned<kFrom>, Aligned<kTo>>(t, stream);
  return true;
}

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

cudaError_t transpose(const TensorView& x, const std::int32_t* row_map, const TensorView& y, cudaStream_t stream) {
  if (y.elements() == 0) return cudaSuccess;
  if (y.format == Format::fp8_block)
    return x.format == y.format && row_map == nullptr ? turn_blocks(x, y, stream) : cudaErrorNotSupported;
  if (y.format == Format::fp8_tensor) {
    if (const cudaError_t error = find_scale(x, y, stream); error != cudaSuccess) return error;
  }
  const Transpose t{x, y, row_map, y.columns, x.columns};
  cudaError_t error = cudaSuccess;
  if (try_launch<Format::bf16, Format::fp8_tile>(t, stream, error)) return error;
  if (try_launch<Format::fp8_tile, Format::fp8_tile>(t, stream, error)) return error;
  if (try_launch<Format::e5m6, Format::fp8_tile>(t, stream, error)) return error;
  if (try_launch<Format::bf16, Format::bf16>(t, stream, error)) return error;
  return launch<TensorView, TensorView>(t, stream);
}

cudaError_t turn_blocks(const TensorView& x, const TensorView& y, cudaStream_t stream) {
  if (x.elements() == 0) return cudaSuccess;
  TensorView from = x;
  if (from.matrix_rows == 0) from.matrix_rows = from.rows;
  const dim3 grid(static_cast<unsigned>(tiles_of(x.columns)), static_cast<unsigned>(tiles_of(from.matrix_rows)),
                  static_cast<unsigned>(x.rows / from.matrix_rows));
  return launch(turn_blocks_kernel, {grid, block_threads}, stream, from, y);
}

}  // namespace plumbline::real::cuda
