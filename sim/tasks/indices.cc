#include "sim/tasks/indices.h"

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/partitioner.h>

namespace plumbline::sim {

void for_each_index(std::size_t count, const std::function<void(std::size_t)>& body) {
  tbb::parallel_for(
      tbb::blocked_range<std::size_t>(0, count, 1),
      [&](const tbb::blocked_range<std::size_t>& some) {
        for (std::size_t index = some.begin(); index < some.end(); ++index) body(index);
      },
      tbb::simple_partitioner());
}

}  // namespace plumbline::sim
