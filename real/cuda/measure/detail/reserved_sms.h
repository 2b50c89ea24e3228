// A running copy kernel that reserves SMs, as communication kernels do. It ends when it is stopped, and after a
// deadline at the latest, so that nothing can hang.
#pragma once

#include <cstdint>

#include "real/cuda/measure/toolbox.h"
#include "real/measure/kernel_case/kernel_case.h"

namespace plumbline::real::cuda {

struct ReservationReport {
  double payload_gbps = 0;   // of all blocks together
  bool own_sms = false;      // every block had an SM of its own
  bool ended_early = false;  // a block reached its deadline before it was stopped
};

class ReservedSms {
 public:
  // The kernel runs on `stream`, which must have no other work.
  ReservedSms(Toolbox& tools, cudaStream_t stream) : tools_(tools), stream_(stream) {}
  // Stops the kernel if it still runs.
  ~ReservedSms();
  ReservedSms(const ReservedSms&) = delete;
  ReservedSms& operator=(const ReservedSms&) = delete;

  // Allocates; no kernel runs yet. Afterwards only start and stop are called, which allocate nothing: an allocation
  // waits for all kernels.
  Status prepare(const KernelCase& what);
  // Starts the kernel and returns once every block runs. It fails if they do not all fit on the device.
  Status start(double deadline_seconds);
  Status stop(ReservationReport& report);

 private:
  Status signal_stop(int value);

  Toolbox& tools_;
  cudaStream_t stream_;
  int ctas_ = 0;
  std::int64_t bytes_ = 0, nanoseconds_per_mib_ = 0, deadline_ns_ = 0;
  bool running_ = false;
  DeviceMemory from_, to_, stop_, report_;
  PinnedMemory to_host_, started_, stop_value_;
  bool to_host_memory_ = false;
};

}  // namespace plumbline::real::cuda
