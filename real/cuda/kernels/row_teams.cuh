// Rows shared among the threads of a team: a warp for short rows, a block for long ones. Each lane holds kVectors times
// eight elements of its row in registers, so that the row is read once.
#pragma once

#include <type_traits>

#include "real/cuda/kernels/launch.cuh"
#include "real/cuda/kernels/limits.h"
#include "real/cuda/kernels/threads.cuh"
#include "real/cuda/kernels/vec8.cuh"

namespace plumbline::real::cuda {

constexpr std::int64_t widest_row_of_warp = 1024;

using Bf16View = Aligned<Format::bf16>;

template <bool kWarp>
class Team {
 public:
  __device__ Team()
      : lane_(static_cast<int>(kWarp ? threadIdx.x % warp_size : threadIdx.x)),
        lanes_(static_cast<int>(kWarp ? warp_size : blockDim.x)) {}

  // Each team takes the rows first(), first() + step(), ...
  __device__ std::int64_t first() const {
    return kWarp ? (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / warp_size : blockIdx.x;
  }
  __device__ std::int64_t step() const {
    return kWarp ? static_cast<std::int64_t>(gridDim.x) * blockDim.x / warp_size : gridDim.x;
  }
  // The first column of the lane's vector v.
  __device__ std::int64_t column(int v) const { return (static_cast<std::int64_t>(v) * lanes_ + lane_) * tile_vector; }
  __device__ bool leads() const { return lane_ == 0; }

  // Returns the sum of all lanes' values, in every lane.
  __device__ float sum(float value) {
    return reduced(
        value, [](float a, float b) { return a + b; }, 0.0f);
  }
  __device__ float largest(float value) {
    return reduced(
        value, [](float a, float b) { return fmaxf(a, b); }, -INFINITY);
  }

 private:
  template <class Operation>
  __device__ static float of_warp(float value, Operation operation) {
#pragma unroll
    for (int offset = warp_size / 2; offset > 0; offset /= 2)
      value = operation(value, __shfl_xor_sync(0xffffffffu, value, offset));
    return value;
  }
  template <class Operation>
  __device__ float reduced(float value, Operation operation, float neutral) {
    value = of_warp(value, operation);
    if (kWarp) return value;
    // Two arrays alternate, so that one is read before it is written again.
    __shared__ float of_warps[2][warp_size];
    float* const place = of_warps[turn_];
    turn_ = 1 - turn_;
    if (threadIdx.x % warp_size == 0) place[threadIdx.x / warp_size] = value;
    __syncthreads();
    const int lane = static_cast<int>(threadIdx.x) % warp_size;
    const int warps = static_cast<int>(blockDim.x) / warp_size;
    return of_warp(lane < warps ? place[lane] : neutral, operation);
  }

  int lane_, lanes_;
  int turn_ = 0;
};

// The most threads of a block, to bound the registers of its kernel.
template <bool kWarp>
constexpr int most_threads = kWarp ? 256 : 1024;

// The division of rows of a given width; with `warp` teams are warps.
struct RowShape {
  bool warp = false;
  int vectors = 1;  // per lane
  int threads = most_threads<true>;
  std::int64_t teams_per_block() const { return warp ? threads / warp_size : 1; }
  std::int64_t blocks(std::int64_t rows) const { return (rows + teams_per_block() - 1) / teams_per_block(); }
};

// Returns the shape for `columns`, at most widest_row. A lane holds two vectors if one each would need more than
// `threads_of_one` threads per block.
inline RowShape row_shape(std::int64_t columns, int threads_of_one) {
  RowShape shape;
  const std::int64_t vectors = (columns + tile_vector - 1) / tile_vector;
  shape.warp = columns <= widest_row_of_warp;
  if (shape.warp) {
    shape.vectors = vectors <= warp_size ? 1 : 4;
    return shape;
  }
  shape.vectors = vectors <= threads_of_one ? 1 : 2;
  const std::int64_t lanes = (vectors + shape.vectors - 1) / shape.vectors;
  shape.threads = static_cast<int>((lanes + warp_size - 1) / warp_size * warp_size);
  return shape;
}

// Calls launch(vectors, warp) with both as compile-time constants. Views of any format, which are rare, have fewer
// variants.
template <class View, class Launch>
cudaError_t launch_rows(const RowShape& shape, const Launch& launch) {
  using One = std::integral_constant<int, 1>;
  using Two = std::integral_constant<int, 2>;
  using Four = std::integral_constant<int, 4>;
  if constexpr (!std::is_same_v<View, TensorView>) {
    if (shape.vectors == 1 && shape.warp) return launch(One{}, std::true_type{});
    if (shape.vectors == 1) return launch(One{}, std::false_type{});
  }
  return shape.warp ? launch(Four{}, std::true_type{}) : launch(Two{}, std::false_type{});
}

// Returns whether all views are aligned BF16; those without data do not count.
template <class... Views>
bool all_bf16(const Views&... views) {
  return ((views.data == nullptr || is_aligned(views, Format::bf16)) && ...);
}

// --- Kernels in which a team passes once through a row, and its sum gives one number ---

// Calls body.vector(row, column) for every vector of the row, which returns its part of the sum, then body.finish(row,
// sum).
template <class Body, bool kWarp>
__global__ void row_sum_kernel(const Body body, std::int64_t rows, std::int64_t columns) {
  Team<kWarp> team;
  for (std::int64_t row = team.first(); row < rows; row += team.step()) {
    float sum = 0.0f;
    for (int v = 0; team.column(v) / scale_tile * scale_tile < columns; ++v) sum += body.vector(row, team.column(v));
    sum = team.sum(sum);
    if (team.leads()) body.finish(row, sum);
  }
}

template <class Body>
cudaError_t launch_row_sums(std::int64_t rows, std::int64_t columns, const Body& body, cudaStream_t stream) {
  if (rows * columns == 0) return cudaSuccess;
  constexpr int block_threads = 256;
  constexpr int warps = block_threads / warp_size;
  if (columns <= widest_row_of_warp) {
    const auto blocks = static_cast<unsigned>((rows + warps - 1) / warps);
    return launch(row_sum_kernel<Body, true>, {blocks, block_threads}, stream, body, rows, columns);
  }
  return launch(row_sum_kernel<Body, false>, {static_cast<unsigned>(rows), block_threads}, stream, body, rows, columns);
}

}  // namespace plumbline::real::cuda
