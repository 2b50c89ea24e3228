// Replaces the header of the same name where kernels are compiled for the host.
#pragma once

#include <chrono>
#include <cstdint>

#include "tests/support/host_gpu/grid.h"

namespace plumbline::real::cuda {

inline std::int64_t nanoseconds() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline void rest(unsigned /*nanoseconds*/) { tests::host_gpu::rest(); }

}  // namespace plumbline::real::cuda
