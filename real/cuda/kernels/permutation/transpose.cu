#include "real/cuda/kernels/cast.h"
#include "real/cuda/kernels/launch.cuh"
#include "real/cuda/kernels/permutation/transpose.h"
#include "real/cuda/kernels/row_teams.cuh"

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

}  // namespace plumbline::real::cuda
