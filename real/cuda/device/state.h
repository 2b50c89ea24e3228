// What a GPU as a device consists of: its streams and their events, the clock, the first failure.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "real/cuda/device/buffer.h"
#include "real/cuda/device/device.h"
#include "real/cuda/device/events.h"
#include "real/cuda/device/lane.h"

namespace plumbline::real::cuda {

// Members are destroyed in reverse: streams before the events on them, and all before the machine's memory.
struct CudaDevice::State {
  Machine machine;
  int target_sms = 0;
  EventPool pool;
  EventClock clock;
  std::array<Lane, lane_kinds> lanes;
  Event first_event = 0;            // of those below; earlier ones happened before the last settle()
  std::vector<cudaEvent_t> events;  // given out by record()
  std::vector<KernelRecord> records;
  Status failure;

  Lane& lane(model::Stream stream) { return lanes[static_cast<std::size_t>(lane_of(stream))]; }
  // The first failure is the one that is told.
  void fail_if_not(Status status);

  Status open(const DeviceOptions& options);
  Status drain();
  // Times become records and events are free again, while the clock's last start is near.
  Status settle();
  Status write(CudaBuffer& buffer, std::span<const float> values);
  Status read(const CudaBuffer& buffer, std::span<float> values);
  Status copy(const CudaBuffer& flat, std::int64_t first, std::int64_t elements, CudaBuffer& to);
  // Of the kernel's parameters in FP8. The optimizer's work by right, so no part of the kernel's time.
  void refresh(model::Stream stream, const Kernel& kernel);

 private:
  cudaStream_t copies() const { return lanes[static_cast<std::size_t>(LaneKind::compute)].stream(); }
};

}  // namespace plumbline::real::cuda
