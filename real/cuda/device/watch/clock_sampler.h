// Samples clocks and power while other work runs. A GPU rests between steps, where a single reading would be
// misleading.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "real/measure/clock_reading.h"

namespace plumbline::real::cuda {

// Returns the mean of the readings, with every throttle reason that any of them had; an empty reading if there are
// none.
ClockReading mean_of(const std::vector<ClockReading>& readings);

class ClockSampler {
 public:
  // Calls `read` on its own thread, with `pause` between calls.
  ClockSampler(std::function<ClockReading()> read, std::chrono::milliseconds pause);
  ~ClockSampler();
  ClockSampler(const ClockSampler&) = delete;
  ClockSampler& operator=(const ClockSampler&) = delete;

  // Returns the mean since the last call; the previous result if nothing was read since.
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
