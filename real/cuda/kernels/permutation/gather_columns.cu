#include "real/cuda/kernels/launch.cuh"
#include "real/cuda/kernels/permutation/gather.h"
#include "real/cuda/kernels/threads.cuh"
#include "real/cuda/kernels/vec8.cuh"

namespace plumbline::real::cuda {
namespace {

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
