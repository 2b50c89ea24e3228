// Clocks and power read again and again beside what runs: between steps a GPU rests, and one reading would show that.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "real/measure/clock_reading.h"

namespace plumbline::real::cuda {

// The mean of what the readings tell; of throttling the reasons that any of them had. Nothing of none.
ClockReading mean_of(const std::vector<ClockReading>& readings);

class ClockSampler {
 public:
  // Calls `read` on a thread of its own.
  ClockSampler(std::function<ClockReading()> read, std::chrono::milliseconds pause);
  ~ClockSampler();
  ClockSampler(const ClockSampler&) = delete;
  ClockSampler& operator=(const ClockSampler&) = delete;

  // The mean since the last call; where nothing was read since, what it was then.
  ClockReading take();

 private:
  void sample();

  std::function<ClockReading()> read_;
  std::chrono::milliseconds pause_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;
  std::vector<ClockReading> readings_;
  ClockReading last_;
  std::thread thread_;
};

}  // namespace plumbline::real::cuda
