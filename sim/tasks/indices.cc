#include "sim/tasks/indices.h"

#ifdef __SANITIZE_THREAD__
#include <oneapi/tbb/global_control.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <vector>
#else
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/partitioner.h>
#endif

namespace plumbline::sim {

#ifdef __SANITIZE_THREAD__
// The thread sanitizer cannot see how the library of oneTBB orders its threads and would report every loop.
void for_each_index(std::size_t count, const std::function<void(std::size_t)>& body) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::future<void>> threads(
      std::min(count, tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism)));
  for (std::future<void>& thread : threads) {
    thread = std::async(std::launch::async, [&] {
      for (std::size_t index = next++; index < count; index = next++) body(index);
    });
  }
  for (std::future<void>& thread : threads) thread.get();
}
#else
void for_each_index(std::size_t count, const std::function<void(std::size_t)>& body) {
  tbb::parallel_for(std::size_t{0}, count, body, tbb::simple_partitioner());
}
#endif

}  // namespace plumbline::sim
