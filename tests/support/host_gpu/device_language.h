// Definitions of CUDA C++ that a host compiler needs to read kernels. It is included before all else of a .cu file.
#pragma once

#include <cuda_runtime_api.h>
#include <vector_functions.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "tests/support/host_gpu/grid.h"

#undef __host__
#undef __device__
#undef __global__
#undef __launch_bounds__
#undef __shared__
#undef __constant__
#undef __forceinline__
#undef __noinline__
#undef __align__
#define __host__
#define __device__
#define __global__
#define __launch_bounds__(...)
#define __shared__ static thread_local  // blocks of a stream run one after the other on its thread
#define __constant__ static
#define __forceinline__ inline
#define __noinline__
#define __align__(bytes) alignas(bytes)

inline void __syncthreads() { plumbline::tests::host_gpu::barrier_block(false); }
inline int __syncthreads_count(int yes) { return plumbline::tests::host_gpu::barrier_block(yes != 0); }
inline void __syncwarp(unsigned = 0xffffffffu) { plumbline::tests::host_gpu::barrier_warp(0); }

// Votes and shuffles take part with whole warps.
inline unsigned __ballot_sync(unsigned, int yes) {
  const std::uint64_t* said = plumbline::tests::host_gpu::barrier_warp(yes != 0 ? 1 : 0);
  unsigned ballot = 0;
  for (unsigned queue = 0; queue < 32; ++queue) ballot |= static_cast<unsigned>(said[queue]) << queue;
  return ballot;
}

template <typename Value>
Value __shfl_sync(unsigned, Value value, int queue) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  const std::uint64_t* shown = plumbline::tests::host_gpu::barrier_warp(bits);
  std::memcpy(&value, shown + queue % 32, sizeof value);
  return value;
}
template <typename Value>
Value __shfl_xor_sync(unsigned mask, Value value, int offset) {
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  return __shfl_sync(mask, value, static_cast<int>(thread % 32) ^ offset);
}

template <typename Value>
Value __shfl_up_sync(unsigned mask, Value value, int distance) {
  const int queue = static_cast<int>(threadIdx.x % 32);
  return __shfl_sync(mask, value, queue < distance ? queue : queue - distance);
}
inline int __reduce_add_sync(unsigned, int value) {
  const std::uint64_t* brought = plumbline::tests::host_gpu::barrier_warp(static_cast<std::uint32_t>(value));
  int sum = 0;
  for (unsigned queue = 0; queue < 32 && queue < blockDim.x; ++queue)
    sum += static_cast<int>(static_cast<std::uint32_t>(brought[queue]));
  return sum;
}
// Returns the lanes that passed the same value.
inline unsigned __match_any_sync(unsigned, int value) {
  const std::uint64_t own = static_cast<std::uint32_t>(value);
  const std::uint64_t* brought = plumbline::tests::host_gpu::barrier_warp(own);
  unsigned same = 0;
  for (unsigned queue = 0; queue < 32 && queue < blockDim.x; ++queue)
    if (brought[queue] == own) same |= 1U << queue;
  return same;
}

inline long long clock64() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

inline int __popc(unsigned bits) { return __builtin_popcount(bits); }

using std::isfinite;
using std::max;
using std::min;

template <typename Number>
Number atomicAdd(Number* to, Number addend) {
  Number held = *to;
  Number sum = held + addend;
  while (!__atomic_compare_exchange(to, &held, &sum, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) sum = held + addend;
  return held;
}

template <typename Number>
Number atomicMax(Number* to, Number value) {
  Number held = *to;
  while (held < value && !__atomic_compare_exchange(to, &held, &value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return held;
}

template <typename Value>
Value __ldcs(const Value* from) {
  return *from;
}
template <typename Value>
void __stcs(Value* to, const Value& value) {
  *to = value;
}

inline void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
inline void __threadfence_system() { std::atomic_thread_fence(std::memory_order_seq_cst); }
