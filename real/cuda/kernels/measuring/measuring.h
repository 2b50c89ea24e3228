// Kernels for measurements: random data, work that computes nothing, reserved SMs.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "real/cuda/kernels/arithmetic.h"

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

// --- SMs reserved by persistent CTAs, as communication kernels reserve them ---

// The copy kernel that represents communication: `ctas` persistent CTAs, each alone on its SM because it uses all of
// its shared memory. They copy `from` to `to` repeatedly until *stop is set or the deadline passes.
struct SmReservation {
  const void* from = nullptr;
  void* to = nullptr;
  std::int64_t bytes = 0;                // a multiple of 16 * ctas
  std::int64_t nanoseconds_per_mib = 0;  // rate of one CTA; 0: unlimited, negative: it only holds its SM
  std::int64_t deadline = 0;             // nanoseconds from each block's start, after which it ends
  const volatile int* stop = nullptr;    // device memory, set from another stream
  volatile int* started = nullptr;       // pinned host memory: entry b is set once block b runs
  std::int64_t* report = nullptr;        // per block: bytes copied, nanoseconds, SM id
};
constexpr int reservation_report_entries = 3;
// `shared_bytes` is the limit of shared memory per block (cudaDevAttrMaxSharedMemoryPerBlockOptin).
cudaError_t reserve_sms(const SmReservation& reservation, int ctas, int shared_bytes, cudaStream_t stream);

// --- Random data, and a count of values that are not finite, for any number of elements ---

// Writes normal numbers times `scale`.
cudaError_t fill_bf16(Bf16* to, std::int64_t elements, std::uint64_t seed, float scale, cudaStream_t stream);
cudaError_t fill_float(float* to, std::int64_t elements, std::uint64_t seed, float scale, cudaStream_t stream);
cudaError_t fill_fp8(Fp8* to, std::int64_t elements, std::uint64_t seed, float scale, cudaStream_t stream);
// Writes positive numbers, log-uniform between scale / 2 and 2 * scale.
cudaError_t fill_scales(float* to, std::int64_t elements, std::uint64_t seed, float scale, cudaStream_t stream);
cudaError_t fill_second_moment(Bf16* to, std::int64_t elements, std::uint64_t seed, cudaStream_t stream);

// Adds the number of NaN and infinite elements to *count.
cudaError_t count_not_finite(const Bf16* values, std::int64_t elements, unsigned long long* count, cudaStream_t stream);
cudaError_t count_not_finite(const float* values, std::int64_t elements, unsigned long long* count,
                             cudaStream_t stream);

}  // namespace plumbline::real::cuda
