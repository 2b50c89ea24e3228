// Work of host streams other than kernels, and kernel times from a profile.
#pragma once

#include <cstdint>
#include <functional>

#include "real/executor/device.h"
#include "real/host/clock.h"

namespace plumbline::real::host {

// Returns a kernel's duration on a stream, in seconds.
using KernelSeconds = std::function<double(model::Stream stream, const Kernel& kernel)>;

// Work of a stream that is no kernel: first start(), then finish(), which may wait for other ranks. An inline stream
// defers finish() until something waits for it, so that transfers overlap what runs in between.
struct StreamWork {
  std::function<void(StreamClock&)> start, finish;
  std::uint32_t label = 0;
};

}  // namespace plumbline::real::host
