#include "real/cuda/kernels/arithmetic/permutation.h"
#include "real/cuda/kernels/launch.cuh"
#include "real/cuda/kernels/permutation/permutation.h"
#include "real/cuda/kernels/threads.cuh"
#include "real/cuda/kernels/vec8.cuh"

namespace plumbline::real::cuda {
namespace {

// A block copies a row: 8 tiles of 128 columns at a time.
constexpr int row_threads = 128;
constexpr int row_tiles = row_threads / tile_lanes;

__device__ int half_warp_index() { return static_cast<int>(threadIdx.x) / tile_lanes; }
__device__ int half_warp_column() { return static_cast<int>(threadIdx.x) % tile_lanes * tile_vector; }
__device__ bool is_row(const TensorView& x, std::int64_t row) { return row >= 0 && row < x.rows; }

// Copies values and scales of the same format bit by bit.
__global__ void copy_rows_kernel(TensorView x, const std::int32_t* map, std::int64_t first, TensorView y,
                                 std::int64_t row_bytes, std::int64_t row_scales) {
  const std::int64_t row = blockIdx.x, source = map[row] - first;
  const std::int64_t vectors = row_bytes / static_cast<std::int64_t>(sizeof(uint4));
  uint4* const to = static_cast<uint4*>(y.data) + row * vectors;
  float* const scales = y.scales + row * row_scales;
  if (!is_row(x, source)) {
    for (std::int64_t i = threadIdx.x; i < vectors; i += row_threads) to[i] = make_uint4(0, 0, 0, 0);
    for (std::int64_t i = threadIdx.x; i < row_scales; i += row_threads) scales[i] = block_scale(0.0f);
    return;
  }
  const uint4* const from = static_cast<const uint4*>(x.data) + source * vectors;
  constexpr int in_flight = 4;
  for (std::int64_t start = threadIdx.x; start < vectors; start += row_threads * in_flight) {
    uint4 held[in_flight];
#pragma unroll
    for (int i = 0; i < in_flight; ++i)
      if (start + i * row_threads < vectors) held[i] = from[start + i * row_threads];
#pragma unroll
    for (int i = 0; i < in_flight; ++i)
      if (start + i * row_threads < vectors) to[start + i * row_threads] = held[i];
  }
  for (std::int64_t i = threadIdx.x; i < row_scales; i += row_threads) scales[i] = x.scales[source * row_scales + i];
}

__global__ void gather_rows_kernel(TensorView x, const std::int32_t* map, std::int64_t first, TensorView y) {
  const std::int64_t row = blockIdx.x, source = map[row] - first;
  for (std::int64_t tile = half_warp_index(); tile < tiles_of(y.columns); tile += row_tiles) {
    const std::int64_t column = tile * scale_tile + half_warp_column();
    store_vec8(y, row, column, is_row(x, source) ? load_vec8(x, source, column) : Vec8{});
  }
}

// View is TensorView, or a type with a compile-time format.
template <class View>
__global__ void sum_rows_kernel(TensorView any_x, const std::int32_t* positions, int slots, TensorView any_y) {
  __shared__ std::int64_t ordered[most_summed_rows];
  __shared__ int count;
  const View x(any_x), y(any_y);
  const std::int32_t* const own = positions + static_cast<std::int64_t>(blockIdx.x) * slots;
  const int slot = static_cast<int>(threadIdx.x);
  if (slot < warp_size) {
    const bool has_row = slot < slots && own[slot] >= 0;
    if (has_row) ordered[place_among(own, slots, slot)] = own[slot];
    const unsigned present = __ballot_sync(0xffffffffu, has_row);
    if (slot == 0) count = bits_set(present);
  }
  __syncthreads();
  for (std::int64_t tile = half_warp_index(); tile < tiles_of(y.columns); tile += row_tiles) {
    const std::int64_t column = tile * scale_tile + half_warp_column();
    Vec8 sum{};
#pragma unroll 2
    for (int i = 0; i < count; ++i) {
      const Vec8 row = load_vec8(x, ordered[i], column);
#pragma unroll
      for (int k = 0; k < tile_vector; ++k) sum.v[k] += row.v[k];
    }
    store_vec8(y, blockIdx.x, column, sum);
  }
}

__global__ void gather_numbers_kernel(const float* x, const std::int32_t* positions, float* y, std::int64_t count) {
  for (std::int64_t i = thread_index(); i < count; i += thread_count())
    y[i] = positions[i] >= 0 ? x[positions[i]] : 0.0f;
}

bool has_row_scales(Format format) { return format == Format::fp8_tile || format == Format::e5m6; }

bool is_at_vector(const TensorView& x) { return reinterpret_cast<std::uintptr_t>(x.data) % sizeof(uint4) == 0; }

// Returns whether the bits of rows can be copied in vectors.
bool can_copy(const TensorView& x, const TensorView& y) {
  if (!is_at_vector(x) || !is_at_vector(y)) return false;
  const bool is_whole = x.format != Format::e5m6 || x.columns % 2 == 0;
  return x.format == y.format && x.format != Format::fp8_block && is_whole && data_bytes(x.format, x.columns) % 16 == 0;
}

// Each warp keeps the map of 128 columns for several rows.
constexpr int column_warps = 4;
constexpr int column_rows = 16;  // per warp
constexpr int held_columns = static_cast<int>(scale_tile) / warp_size;

template <bool kFp8>
__device__ float load_column(const TensorView& x, std::int64_t row, std::int64_t column) {
  if (!kFp8) return load_one(x, row, column);
  const std::uint8_t raw = static_cast<const std::uint8_t*>(x.data)[row * x.columns + column];
  return from_two_fp8(raw).x * x.scales[row * tiles_of(x.columns) + column / scale_tile];
}

template <bool kFp8>
__device__ void gather_row(const TensorView& x, const std::int64_t (&source)[held_columns], const TensorView& y,
                           std::int64_t row, std::int64_t first) {
  float values[held_columns], largest = 0.0f;
#pragma unroll
  for (int i = 0; i < held_columns; ++i) {
    values[i] = source[i] >= 0 ? load_column<kFp8>(x, row, source[i]) : 0.0f;
    largest = fmaxf(largest, fabsf(values[i]));
  }
  float reciprocal = 1.0f;
  if (kFp8) {
    largest = warp_max(largest);
    const float scale = block_scale(largest);
    reciprocal = 1.0f / scale;
    if (threadIdx.x % warp_size == 0) y.scales[row * tiles_of(y.columns) + first / scale_tile] = scale;
  }
#pragma unroll
  for (int i = 0; i < held_columns; ++i) {
    const std::int64_t column = first + threadIdx.x % warp_size + i * warp_size;
    if (column >= y.columns) continue;
    if (kFp8)
      static_cast<std::uint8_t*>(y.data)[row * y.columns + column] =
          static_cast<std::uint8_t>(to_two_fp8(values[i] * reciprocal, 0.0f));
    else
      store_one(y, row, column, values[i]);
  }
}

template <bool kFp8>
__global__ void gather_columns_kernel(TensorView x, const std::int32_t* map, TensorView y) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * scale_tile;
  std::int64_t source[held_columns];
#pragma unroll
  for (int i = 0; i < held_columns; ++i) {
    const std::int64_t column = first + threadIdx.x % warp_size + i * warp_size;
    source[i] = column < y.columns ? map[column] : -1;
    if (source[i] >= x.columns) source[i] = -1;
  }
  const std::int64_t from =
      (static_cast<std::int64_t>(blockIdx.y) * column_warps + threadIdx.x / warp_size) * column_rows;
  for (std::int64_t row = from; row < from + column_rows && row < y.rows; ++row)
    gather_row<kFp8>(x, source, y, row, first);
}

unsigned parts(std::int64_t extent, std::int64_t size) { return static_cast<unsigned>((extent + size - 1) / size); }

}  // namespace

cudaError_t gather_rows(const TensorView& x, const std::int32_t* map, std::int64_t first, const TensorView& y,
                        cudaStream_t stream) {
  if (y.rows == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>(y.rows);
  if (can_copy(x, y)) {
    const std::int64_t row_scales = has_row_scales(x.format) ? tiles_of(x.columns) : 0;
    return launch(copy_rows_kernel, {blocks, row_threads}, stream, x, map, first, y, data_bytes(x.format, x.columns),
                  row_scales);
  }
  return launch(gather_rows_kernel, {blocks, row_threads}, stream, x, map, first, y);
}

cudaError_t sum_rows(const TensorView& x, const std::int32_t* positions, std::int64_t slots, const TensorView& y,
                     cudaStream_t stream) {
  if (y.rows == 0) return cudaSuccess;
  if (slots > most_summed_rows) return cudaErrorInvalidValue;
  const auto blocks = static_cast<unsigned>(y.rows);
  if (is_aligned(x, Format::bf16) && is_aligned(y, Format::bf16))
    return launch(sum_rows_kernel<Aligned<Format::bf16>>, {blocks, row_threads}, stream, x, positions,
                  static_cast<int>(slots), y);
  return launch(sum_rows_kernel<TensorView>, {blocks, row_threads}, stream, x, positions, static_cast<int>(slots), y);
}

cudaError_t gather_numbers(const float* x, const std::int32_t* positions, float* y, std::int64_t count,
                           cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  return launch(gather_numbers_kernel, {grid_for(count, row_threads), row_threads}, stream, x, positions, y, count);
}

cudaError_t gather_columns(const TensorView& x, const std::int32_t* map, const TensorView& y, cudaStream_t stream) {
  if (y.columns == 0) return cudaSuccess;
  const dim3 blocks(parts(y.columns, scale_tile), parts(y.rows, column_warps * column_rows));
  const unsigned threads = column_warps * warp_size;
  if (x.format == Format::fp8_tile && y.format == Format::fp8_tile)
    return launch(gather_columns_kernel<true>, {blocks, threads}, stream, x, map, y);
  if (y.scales != nullptr) return cudaErrorInvalidValue;
  return launch(gather_columns_kernel<false>, {blocks, threads}, stream, x, map, y);
}

}  // namespace plumbline::real::cuda
