// The threads of a kernel: their number, their index, and reductions over a warp.
#pragma once

#include <cstdint>

namespace plumbline::real::cuda {

constexpr int warp_size = 32;

// Reduces over all lanes of a warp; every lane gets the result.
__device__ inline float warp_sum(float value) {
#pragma unroll
  for (int offset = warp_size / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
}

__device__ inline float warp_max(float value) {
#pragma unroll
  for (int offset = warp_size / 2; offset > 0; offset /= 2)
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, offset));
  return value;
}

// Returns the blocks of `threads` that cover `items`, at most `most` of them (kernels then stride).
inline unsigned grid_for(std::int64_t items, int threads, std::int64_t most = 1 << 16) {
  const std::int64_t blocks = (items + threads - 1) / threads;
  return static_cast<unsigned>(blocks < most ? (blocks > 0 ? blocks : 1) : most);
}

__device__ inline std::int64_t thread_index() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t thread_count() { return static_cast<std::int64_t>(gridDim.x) * blockDim.x; }

}  // namespace plumbline::real::cuda
