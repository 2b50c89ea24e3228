// Runs untimed work of the host on all its cores: generating numbers, converting formats.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace plumbline::real {

// Calls body(begin, end) on ranges that cover [0, count), on at most one thread per core, and returns when all have.
// Ranges hold at least `least` items; a single range runs on the calling thread.
inline void in_parallel(std::int64_t count, std::int64_t least,
                        const std::function<void(std::int64_t, std::int64_t)>& body) {
  const std::int64_t cores = std::max(1U, std::thread::hardware_concurrency());
  const std::int64_t ranges = std::clamp<std::int64_t>(count / least, 1, cores);
  std::vector<std::jthread> threads;
  for (std::int64_t range = 1; range < ranges; ++range)
    threads.emplace_back([&, range] { body(count * range / ranges, count * (range + 1) / ranges); });
  body(0, count / ranges);
}

}  // namespace plumbline::real
