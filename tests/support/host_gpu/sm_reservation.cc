// The copy kernel that reserves SMs: its blocks run at the same time, other than those of other kernels here.
#include <chrono>
#include <cstring>

#include "real/cuda/kernels/measuring/measuring.h"
#include "tests/support/host_gpu/runtime.h"

namespace plumbline::real::cuda {

cudaError_t reserve_sms(const SmReservation& reservation, int ctas, int /*shared_bytes*/, cudaStream_t stream) {
  tests::host_gpu::enqueue(stream, [reservation, ctas] {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    const auto passed = [start] { return std::chrono::nanoseconds(Clock::now() - start).count(); };
    for (int block = 0; block < ctas; ++block) reservation.started[block] = 1;
    const std::int64_t share = reservation.bytes / ctas;
    std::int64_t copied = 0;  // bytes copied by each block
    while (*reservation.stop == 0 && passed() < reservation.deadline) {
      if (reservation.nanoseconds_per_mib < 0) continue;
      std::memmove(reservation.to, reservation.from, static_cast<std::size_t>(reservation.bytes));
      copied += share;
    }
    for (int block = 0; block < ctas; ++block) {
      std::int64_t* report = reservation.report + static_cast<std::ptrdiff_t>(block) * reservation_report_entries;
      report[0] = copied;
      report[1] = passed();
      report[2] = block;
    }
  });
  return cudaSuccess;
}

}  // namespace plumbline::real::cuda
