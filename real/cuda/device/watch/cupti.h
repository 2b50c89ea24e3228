// Records when each kernel ran, through CUPTI, the driver's profiling interface. Recording slows a step by a few
// percent, so it serves inspection, not measurement.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "real/cuda/device/watch/kernel_trace.h"
#include "real/cuda/status.h"

namespace plumbline::real::cuda {

// A process has at most one recorder at a time: CUPTI allows no more.
class KernelRecorder {
 public:
  // Returns nullptr if the library is missing or another tool already records; `error` has the reason.
  static std::unique_ptr<KernelRecorder> open(const std::vector<std::string>& folders, std::string& error);
  ~KernelRecorder();
  KernelRecorder(const KernelRecorder&) = delete;
  KernelRecorder& operator=(const KernelRecorder&) = delete;

  Status start();
  // Returns what has run since start(). All streams must be idle.
  Status stop(std::vector<KernelActivity>& activities);

 private:
  struct State;
  explicit KernelRecorder(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace plumbline::real::cuda
