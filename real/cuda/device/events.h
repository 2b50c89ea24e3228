// CUDA events that mark places on streams, and the clock that they are read on.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

#include "real/cuda/status.h"

namespace plumbline::real::cuda {

// Making an event costs as much as recording it, so they are used again.
class EventPool {
 public:
  EventPool() = default;
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  // An event recorded on the stream; valid until take_back().
  Status record(cudaStream_t stream, cudaEvent_t& event);
  // All of them; the streams are idle.
  void take_back() { used_ = 0; }

 private:
  std::vector<cudaEvent_t> events_;
  std::size_t used_ = 0;
};

// Seconds since open(). The runtime tells the distance of two events in milliseconds, as a float: to keep its
// resolution of half a microsecond, distances are short and summed in double precision.
class EventClock {
 public:
  EventClock() = default;
  ~EventClock();
  EventClock(const EventClock&) = delete;
  EventClock& operator=(const EventClock&) = delete;

  Status open(cudaStream_t stream);
  // Counts from now on, for events recorded later; all streams are idle.
  Status restart();
  double restarted_at() const { return epoch_seconds_; }
  // Waits for what the stream has to do, and says when that was done.
  Status now(double& seconds);

  // The times of one stream's events, asked for in their order.
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

}  // namespace plumbline::real::cuda
