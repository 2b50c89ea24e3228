// What the kernels share: 16-byte vectors of eight BF16 numbers, reductions within a block.
#pragma once

#include <cstdint>

#include "real/cuda/arithmetic.h"
#include "real/cuda/kernels.h"

namespace plumbline::real::cuda {

constexpr int vector_width = 8;  // BF16 numbers in 16 bytes
constexpr int warp_size = 32;

struct alignas(16) Bf16x8 {
  Bf16 values[vector_width];
};

__device__ inline Bf16x8 load(const Bf16* from) {
  const uint4 raw = *reinterpret_cast<const uint4*>(from);
  Bf16x8 vector;
  memcpy(&vector, &raw, sizeof raw);
  return vector;
}

__device__ inline void store(Bf16* to, const Bf16x8& vector) {
  uint4 raw;
  memcpy(&raw, &vector, sizeof raw);
  *reinterpret_cast<uint4*>(to) = raw;
}

__device__ inline float warp_sum(float value) {
#pragma unroll
  for (int offset = warp_size / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
}

// The sum over all threads of the block, in every thread. Whole warps only; one call per kernel.
__device__ inline float block_sum(float value) {
  __shared__ float partial[warp_size];
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const int warp = static_cast<int>(threadIdx.x) / warp_size;
  value = warp_sum(value);
  if (lane == 0) partial[warp] = value;
  __syncthreads();
  const int warps = static_cast<int>(blockDim.x) / warp_size;
  return warp_sum(lane < warps ? partial[lane] : 0.0f);
}

// Blocks of `threads` that cover `items`, at most `most` of them (kernels then stride).
inline unsigned grid_for(std::int64_t items, int threads, std::int64_t most = 1 << 16) {
  const std::int64_t blocks = (items + threads - 1) / threads;
  return static_cast<unsigned>(blocks < most ? (blocks > 0 ? blocks : 1) : most);
}

__device__ inline std::int64_t thread_index() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t thread_count() { return static_cast<std::int64_t>(gridDim.x) * blockDim.x; }

__device__ inline std::int64_t nanoseconds() {
  std::int64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

}  // namespace plumbline::real::cuda
