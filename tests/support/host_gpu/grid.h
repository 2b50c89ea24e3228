// Runs kernels on the host: blocks one after the other, and the threads of a block in turns, each until it waits for
// others. Threads are switched at barriers, votes, shuffles and rests, so a kernel may rely only on what these
// guarantee. A block that waits for a later block of its grid waits forever. This is C++17, as kernels are.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>

namespace plumbline::tests::host_gpu {

struct GridShape {
  dim3 blocks, threads;
  std::size_t shared_bytes = 0;  // dynamic shared memory of a block
};
// Calls `thread` for each thread of the grid, on the stream.
void enqueue_grid(cudaStream_t stream, const GridShape& shape, std::function<void()> thread);

// --- Called by threads of a kernel ---

// Returns when all threads of the block have arrived, with the number that passed true.
int barrier_block(bool yes);
// Returns when all lanes of the warp have arrived, with their values.
const std::uint64_t* barrier_warp(std::uint64_t value);
// Returns the block's dynamic shared memory.
void* dynamic_memory();
// Lets other threads run first.
void rest();

}  // namespace plumbline::tests::host_gpu

inline thread_local uint3 threadIdx, blockIdx;
inline thread_local dim3 blockDim, gridDim;
