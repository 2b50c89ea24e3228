// SMs divided by the driver: two green contexts with disjoint SMs and a stream each. Work in one stream never runs on
// the SMs of the other. A driver of CUDA 12.5 or newer is needed.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "real/cuda/status.h"

namespace plumbline::real::cuda {

class GreenContexts {
 public:
  ~GreenContexts();
  GreenContexts(const GreenContexts&) = delete;
  GreenContexts& operator=(const GreenContexts&) = delete;

  // Gives `sms` SMs of device `ordinal` to the smaller context, the others to the larger one. If that is no multiple of
  // the SMs that the hardware schedules together (8 on Hopper), SMs are divided one by one; fewer thread-block clusters
  // may then fit. It fails if the device is too small or the driver too old.
  static Status open(int ordinal, int sms, std::unique_ptr<GreenContexts>& contexts);

  // Non-blocking streams; the smaller context's has the highest priority.
  cudaStream_t small() const;
  cudaStream_t large() const;
  int small_sms() const;
  int large_sms() const;
  bool coscheduled() const;  // SMs that the hardware schedules together stay together

 private:
  struct State;
  explicit GreenContexts(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace plumbline::real::cuda
