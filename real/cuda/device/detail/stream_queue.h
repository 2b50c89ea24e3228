// A CUDA stream with the records of what was launched on it, the events that mark places on it, and their clock.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "model/result/timeline.h"
#include "real/cuda/status.h"
#include "real/executor/device.h"

namespace plumbline::real::cuda {

// Reuses events, because creating one costs as much as recording it.
class EventPool {
 public:
  EventPool() = default;
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  // Records an event on the stream; it is valid until take_back().
  Status record(cudaStream_t stream, cudaEvent_t& event);
  // Takes back all events; the streams must be idle.
  void take_back() { used_ = 0; }

 private:
  std::vector<cudaEvent_t> events_;
  std::size_t used_ = 0;
};

// Seconds since open(). The runtime returns the time between two events as a float of milliseconds. To keep its
// resolution of half a microsecond, intervals are short and summed in double precision.
class EventClock {
 public:
  EventClock() = default;
  ~EventClock();
  EventClock(const EventClock&) = delete;
  EventClock& operator=(const EventClock&) = delete;

  Status open(cudaStream_t stream);
  // Restarts the interval now, for events recorded later; all streams must be idle.
  Status restart();
  double restarted_at() const { return epoch_seconds_; }
  // Waits for the stream's work, and returns the time at which it ended.
  Status now(double& seconds);

  // Reads the times of one stream's events, in the order of recording.
  class Reader {
   public:
    explicit Reader(const EventClock& clock) : anchor_(clock.epoch_), anchor_seconds_(clock.epoch_seconds_) {}
    Status read(cudaEvent_t event, double& seconds);

   private:
    cudaEvent_t anchor_;
    double anchor_seconds_;
  };

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t epoch_ = nullptr, next_ = nullptr;
  double epoch_seconds_ = 0;
};

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
