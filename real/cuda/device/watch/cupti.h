// When each kernel really ran, as the driver's profiling interface tells. Recording slows a step by some percent, so
// it is for looking, not for measuring.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "real/cuda/device/watch/kernel_trace.h"
#include "real/cuda/status.h"

namespace plumbline::real::cuda {

// One at a time in a process: the interface knows no more.
class KernelRecorder {
 public:
  // nullptr where the library is missing or another tool records already; `error` says which.
  static std::unique_ptr<KernelRecorder> open(const std::vector<std::string>& folders, std::string& error);
  ~KernelRecorder();
  KernelRecorder(const KernelRecorder&) = delete;
  KernelRecorder& operator=(const KernelRecorder&) = delete;

  Status start();
  // What has run since start(). Call it with all streams idle.
  Status stop(std::vector<KernelActivity>& activities);

 private:
  struct State;
  explicit KernelRecorder(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace plumbline::real::cuda
