// What a case must do at least, and the time below which no device can do it: nothing measured may be faster.
#pragma once

#include <string>
#include <vector>

#include "real/cuda/probe/case.h"

namespace plumbline::real::cuda {

struct Work {
  double flops = 0;  // of matrix products, 2 m n k; 0 for kernels that only move data
  double bytes = 0;  // in device memory: each input read once, each output written once
};
Work work_of(const Case& value);

// Datasheet rates of a device; dense, without sparsity. A rate of 0 means that the device cannot do it.
struct DevicePeak {
  std::string name;        // lower case, also looked for in the names that devices give themselves
  double bf16_tflops = 0;  // 1e12 FLOP/s
  double fp8_tflops = 0;
  double memory_gbps = 0;  // 1e9 B/s
  double host_gbps = 0;    // 1e9 B/s per direction, between host and device
};
const std::vector<DevicePeak>& device_peaks();
// The peak whose name is part of `device` ("NVIDIA H200" -> h200), or nullptr.
const DevicePeak* find_peak(const std::string& device);

// Microseconds; negative when the device cannot run the case (FP8 without such units), 0 when nothing bounds it.
double floor_us(const Case& value, const DevicePeak& peak);

}  // namespace plumbline::real::cuda
