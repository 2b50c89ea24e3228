#include "sim/tasks/indices.h"

#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/partitioner.h>

namespace plumbline::sim {

void for_each_index(std::size_t count, const std::function<void(std::size_t)>& body) {
  tbb::parallel_for(std::size_t{0}, count, body, tbb::simple_partitioner());
}

}  // namespace plumbline::sim
