// SMs reserved by persistent CTAs, as communication kernels reserve them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace plumbline::real::cuda {

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

}  // namespace plumbline::real::cuda
