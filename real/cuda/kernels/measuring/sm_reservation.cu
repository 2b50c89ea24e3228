#include "real/cuda/kernels/clock.cuh"
#include "real/cuda/kernels/launch.cuh"
#include "real/cuda/kernels/measuring/measuring.h"
#include "real/cuda/kernels/threads.cuh"

namespace plumbline::real::cuda {
namespace {

constexpr int reserve_threads = 512;
constexpr std::int64_t slice_bytes = 1 << 17;  // copied between two checks of the clock and the stop flag

// Copies [begin, end) of the vectors by the whole block, with four loads in flight per thread.
__device__ void copy_slice(const uint4* from, uint4* to, std::int64_t begin, std::int64_t end) {
  constexpr int in_flight = 4;
  for (std::int64_t start = begin + threadIdx.x; start < end; start += blockDim.x * in_flight) {
    uint4 held[in_flight];
#pragma unroll
    for (int i = 0; i < in_flight; ++i) {
      const std::int64_t at = start + i * static_cast<std::int64_t>(blockDim.x);
      if (at < end) held[i] = __ldcs(from + at);
    }
#pragma unroll
    for (int i = 0; i < in_flight; ++i) {
      const std::int64_t at = start + i * static_cast<std::int64_t>(blockDim.x);
      if (at < end) __stcs(to + at, held[i]);
    }
  }
}

__device__ int sm_id() {
  int id;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
  return id;
}

// Returns whether the block continues. Thread 0 decides; `decision` is in shared memory, so that all threads agree.
// `due` is when the block may continue at its rate.
__device__ bool go_on(const SmReservation& o, std::int64_t start, std::int64_t due, volatile int* decision) {
  __syncthreads();
  if (threadIdx.x == 0) {
    bool going = true;
    for (bool waiting = true; waiting;) {
      const std::int64_t now = nanoseconds();
      going = *o.stop == 0 && now - start < o.deadline;
      waiting = going && now < due;
      if (waiting) rest(200);
    }
    *decision = going ? 1 : 0;
  }
  __syncthreads();
  return *decision != 0;
}

__global__ void reserve_sms_kernel(SmReservation o) {
  // All shared memory is dynamic: next to static memory, the largest request would not fit. Only the first word is
  // used.
  auto* const shared = dynamic_shared<int>();
  const std::int64_t start = nanoseconds();
  const std::int64_t share = o.bytes / 16 / gridDim.x;
  const std::int64_t first = share * blockIdx.x;
  const std::int64_t slice = slice_bytes / 16 < share ? slice_bytes / 16 : share;
  const bool copies = o.nanoseconds_per_mib >= 0;
  if (threadIdx.x == 0) {
    o.started[blockIdx.x] = 1;
    __threadfence_system();
  }
  std::int64_t copied = 0, at = 0, due = start;
  // A block that only holds its SM checks the flag every 10 microseconds.
  while (go_on(o, start, due, shared)) {
    if (!copies) {
      due = nanoseconds() + 10000;
      continue;
    }
    const std::int64_t end = at + slice < share ? at + slice : share;
    copy_slice(static_cast<const uint4*>(o.from), static_cast<uint4*>(o.to), first + at, first + end);
    copied += (end - at) * 16;
    at = end < share ? end : 0;
    if (o.nanoseconds_per_mib > 0) due = start + copied * o.nanoseconds_per_mib / (1 << 20);
  }
  if (threadIdx.x == 0) {
    std::int64_t* report = o.report + static_cast<std::int64_t>(blockIdx.x) * reservation_report_entries;
    report[0] = copied;
    report[1] = nanoseconds() - start;
    report[2] = sm_id();
  }
}

}  // namespace

cudaError_t reserve_sms(const SmReservation& reservation, int ctas, int shared_bytes, cudaStream_t stream) {
  const cudaError_t error = allow_shared(reserve_sms_kernel, shared_bytes);
  if (error != cudaSuccess) return error;
  const auto dynamic = static_cast<std::size_t>(shared_bytes);
  return launch(reserve_sms_kernel, {static_cast<unsigned>(ctas), reserve_threads, dynamic}, stream, reservation);
}

}  // namespace plumbline::real::cuda
