// A CUDA stream with the records of what was launched on it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "model/result/timeline.h"
#include "real/cuda/device/events.h"
#include "real/cuda/status.h"
#include "real/executor/device.h"

namespace plumbline::real::cuda {

// Each kind has its own CUDA stream: the model's streams of one kind run in order.
enum class QueueKind : std::uint8_t { compute, communication, collective, optimizer };
constexpr std::size_t queue_kinds = 4;
QueueKind queue_of(model::Stream stream);

class StreamQueue {
 public:
  StreamQueue() = default;
  ~StreamQueue();
  StreamQueue(const StreamQueue&) = delete;
  StreamQueue& operator=(const StreamQueue&) = delete;

  // `urgent` gives the stream a higher priority: its blocks take free SMs before those of other streams.
  Status open(EventPool& events, bool urgent);
  cudaStream_t stream() const { return stream_; }

  // Runs `launch` between two events, which become the label's record. Back-to-back launches share the event between
  // them.
  Status run(model::Stream name, std::uint32_t label, const std::function<Status(cudaStream_t)>& launch);
  // Runs `launch` without a record.
  Status run(const std::function<Status(cudaStream_t)>& launch);
  // Returns an event that happens after all that was launched so far.
  Status mark(cudaEvent_t& event);
  Status wait(cudaEvent_t event);
  Status drain();
  // Appends the records since the last call. The stream must be idle; its events are forgotten.
  Status take_records(const EventClock& clock, std::vector<KernelRecord>& records);

 private:
  struct Pending {
    std::uint32_t label;
    model::Stream name;
    cudaEvent_t start, end;
  };
  cudaStream_t stream_ = nullptr;
  EventPool* events_ = nullptr;
  cudaEvent_t last_ = nullptr;  // the event at the end of the stream; nullptr: work follows it
  std::vector<Pending> pending_;
};

}  // namespace plumbline::real::cuda
