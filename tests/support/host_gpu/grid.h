// Kernels on the host: blocks one after the other, and the threads of a block in turns, each until it waits for others.
// Threads are switched where they meet (barriers, votes, shuffles) and where they rest, so what a kernel may rely on is
// what these promise. A block that waits for a later block of its grid waits forever. C++17, as kernels are.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>

namespace plumbline::tests::host_gpu {

struct GridShape {
  dim3 blocks, threads;
  std::size_t shared_bytes = 0;  // that a block claims
};
// Calls `thread` on the stream for each thread of the grid.
void enqueue_grid(cudaStream_t stream, const GridShape& shape, std::function<void()> thread);

// --- Called by threads of a kernel ---

// Returns when all threads of the block have come, with how many said yes.
int barrier_block(bool yes);
// Returns when all lanes of the warp have come, with their values.
const std::uint64_t* barrier_warp(std::uint64_t value);
// What the block has claimed.
void* dynamic_memory();
// Lets others go first.
void rest();

}  // namespace plumbline::tests::host_gpu

inline thread_local uint3 threadIdx, blockIdx;
inline thread_local dim3 blockDim, gridDim;
