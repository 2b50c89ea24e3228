// Kernels that compute nothing, for measurements and for tests of streams.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace plumbline::real::cuda {

// Copies `bytes`, a multiple of 16; pointers are aligned to 16 bytes.
cudaError_t copy(const void* from, void* to, std::int64_t bytes, cudaStream_t stream);

cudaError_t empty(cudaStream_t stream);
// Keeps one SM busy for that time, so that the host can enqueue work behind it.
cudaError_t spin(std::int64_t nanoseconds, cudaStream_t stream);
// Counts the cycles of one SM for that time: report[0] cycles in report[1] nanoseconds.
cudaError_t count_cycles(std::int64_t nanoseconds, std::int64_t* report, cudaStream_t stream);
// Reads all of `buffer`, which then fills the L2 cache. `sink` is one word that is never written.
cudaError_t flush_cache(const void* buffer, std::int64_t bytes, std::uint32_t* sink, cudaStream_t stream);

}  // namespace plumbline::real::cuda
