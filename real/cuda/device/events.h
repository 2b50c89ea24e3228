// CUDA events that mark places on streams, and the clock that reads them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

#include "real/cuda/status.h"

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

}  // namespace plumbline::real::cuda
