#include "real/cuda/kernels/elementwise.cuh"
#include "real/cuda/kernels/kernels.h"
#include "real/cuda/kernels/launch.cuh"
#include "real/cuda/kernels/row_teams.cuh"

namespace plumbline::real::cuda {
namespace {

template <class From, class To>
struct Cast {
  TensorView x, y;
  __device__ void operator()(std::int64_t row, std::int64_t column) const {
    store_vec8(To(y), row, column, load_vec8(From(x), row, column));
  }
};

// Magnitudes have the order of their bits, so that the largest does not depend on the order of blocks.
struct FindLargest {
  TensorView x;
  std::uint32_t* largest;
  __device__ void operator()(std::int64_t row, std::int64_t column) const {
    const float of_tile = tile_largest(load_vec8(x, row, column));
    if (threadIdx.x % tile_lanes == 0) atomicMax(largest, bits_of(of_tile));
  }
};

__global__ void scale_of_largest(float* scale) { *scale = block_scale(*scale); }

template <Format kFrom, Format kTo>
bool try_cast(const TensorView& x, const TensorView& y, cudaStream_t stream, cudaError_t& error) {
  if (!is_aligned(x, kFrom) || !is_aligned(y, kTo)) return false;
  error = launch_tiles(y, Cast<Aligned<kFrom>, Aligned<kTo>>{x, y}, stream);
  return true;
}

// Format pairs of training have their own kernels.
cudaError_t cast_rows(const TensorView& x, const TensorView& y, cudaStream_t stream) {
  cudaError_t error = cudaSuccess;
  if (try_cast<Format::bf16, Format::fp8_tile>(x, y, stream, error)) return error;
  if (try_cast<Format::fp8_tile, Format::bf16>(x, y, stream, error)) return error;
  if (try_cast<Format::bf16, Format::e5m6>(x, y, stream, error)) return error;
  if (try_cast<Format::e5m6, Format::bf16>(x, y, stream, error)) return error;
  if (try_cast<Format::fp32, Format::bf16>(x, y, stream, error)) return error;
  if (try_cast<Format::bf16, Format::fp32>(x, y, stream, error)) return error;
  return launch_tiles(y, Cast<TensorView, TensorView>{x, y}, stream);
}

constexpr int block_threads = 256;
constexpr int rows_at_once = block_threads / tile_lanes;
constexpr int passes = scale_tile / rows_at_once;

using Fp8View = Aligned<Format::fp8_block>;

__device__ void store_rounded(const Fp8View& y, std::int64_t row, std::int64_t column, const Vec8& values,
                              float reciprocal) {
  if (column < y.columns) store_vector(y, row, column, values, reciprocal);
}
__device__ void store_rounded(const TensorView& y, std::int64_t row, std::int64_t column, const Vec8& values,
                              float reciprocal) {
  store_singly(y, row, column, values, reciprocal);
}

// Each thread block holds a 128 x 128 block of one matrix in registers from the search for its largest value to the
// rounding.
template <class From, class To>
__global__ void __launch_bounds__(block_threads) cast_blocks_kernel(TensorView x_, TensorView y_) {
  const From x(x_);
  const To y(y_);
  const std::int64_t height = y.matrix_rows;
  const std::int64_t within = blockIdx.y * scale_tile + threadIdx.x / tile_lanes;
  const std::int64_t first_row = blockIdx.z * height + within;
  const std::int64_t column = blockIdx.x * scale_tile + threadIdx.x % tile_lanes * tile_vector;
  Vec8 held[passes];
  float largest = 0.0f;
#pragma unroll
  for (int pass = 0; pass < passes; ++pass) {
    const bool is_there = within + pass * rows_at_once < height;
    held[pass] = is_there ? load_vec8(x, first_row + pass * rows_at_once, column) : Vec8{};
#pragma unroll
    for (int i = 0; i < tile_vector; ++i) largest = fmaxf(largest, fabsf(held[pass].v[i]));
  }
  Team<false> team;
  const float scale = block_scale(team.largest(largest)), reciprocal = 1.0f / scale;
#pragma unroll
  for (int pass = 0; pass < passes; ++pass) {
    const std::int64_t row = first_row + pass * rows_at_once;
    if (within + pass * rows_at_once >= height) break;
    store_rounded(y, row, column, held[pass], reciprocal);
  }
  if (threadIdx.x == 0) y.scales[scale_index(y, first_row, column)] = scale;
}

}  // namespace

cudaError_t find_scale(const TensorView& x, const TensorView& y, cudaStream_t stream) {
  const cudaError_t error = cudaMemsetAsync(y.scales, 0, sizeof(float), stream);
  if (error != cudaSuccess) return error;
  const TensorView source = flat(x);
  const FindLargest find{source, reinterpret_cast<std::uint32_t*>(y.scales)};
  if (const cudaError_t launched = launch_tiles(source, find, stream); launched != cudaSuccess) return launched;
  return launch(scale_of_largest, {1, 1}, stream, y.scales);
}

cudaError_t cast(const TensorView& x, const TensorView& y, cudaStream_t stream) {
  if (y.format == Format::fp8_block) return cast_blocks(x, y, stream);
  if (y.format == Format::fp8_tensor) {
    if (const cudaError_t error = find_scale(x, y, stream); error != cudaSuccess) return error;
  }
  return all_flat(x, y) ? cast_rows(flat(x), flat(y), stream) : cast_rows(x, y, stream);
}

cudaError_t cast_blocks(const TensorView& x, const TensorView& y, cudaStream_t stream) {
  if (y.elements() == 0) return cudaSuccess;
  TensorView to = y;
  if (to.matrix_rows == 0) to.matrix_rows = to.rows;
  const dim3 grid(static_cast<unsigned>(tiles_of(to.columns)), static_cast<unsigned>(tiles_of(to.matrix_rows)),
                  static_cast<unsigned>(to.rows / to.matrix_rows));
  const bool aligned = is_aligned(x, Format::bf16) && is_aligned(y, Format::fp8_block);
  const auto kernel = aligned ? cast_blocks_kernel<Bf16View, Fp8View> : cast_blocks_kernel<TensorView, TensorView>;
  return launch(kernel, {grid, block_threads}, stream, x, to);
}

}  // namespace plumbline::real::cuda
