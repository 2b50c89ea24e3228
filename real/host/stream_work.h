// What streams of the host run beside kernels, and what a profile says that kernels take.
#pragma once

#include <cstdint>
#include <functional>

#include "real/executor/device.h"
#include "real/host/clock.h"

namespace plumbline::real::host {

// How long a kernel takes on a stream, in seconds.
using KernelSeconds = std::function<double(model::Stream stream, const Kernel& kernel)>;

// What a stream runs that is no kernel: first start(), then finish(), which may wait for other ranks. Inline, finish()
// is put off until something waits for it, so that what start() sent travels meanwhile.
struct StreamWork {
  std::function<void(StreamClock&)> start, finish;
  std::uint32_t label = 0;
};

}  // namespace plumbline::real::host
