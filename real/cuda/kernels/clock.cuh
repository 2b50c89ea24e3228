// The device's clock, for kernels that keep a rate or wait.
#pragma once

#include <cstdint>

namespace plumbline::real::cuda {

__device__ inline std::int64_t nanoseconds() {
  std::int64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__device__ inline void rest(unsigned nanoseconds) { __nanosleep(nanoseconds); }

}  // namespace plumbline::real::cuda
