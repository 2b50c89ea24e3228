#include "real/cuda/kernels/cast.h"
#include "real/cuda/kernels/launch.cuh"
#include "real/cuda/kernels/row_teams.cuh"

namespace plumbline::real::cuda {
namespace {

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
