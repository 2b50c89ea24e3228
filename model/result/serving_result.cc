#include "model/result/serving_result.h"

#include <array>
#include <cstddef>

namespace plumbline::model {

std::string_view to_string(ServingBound bound) {
  constexpr std::array<std::string_view, 6> names = {"weights", "kv", "compute", "links", "latency", "host"};
  return names[static_cast<std::size_t>(bound)];
}

Memory memory_of(const ServingResult& result) {
  Memory memory;
  for (const ServingPool& pool : result.pools) {
    const double bytes = pool.weights_bytes + pool.activations_bytes + pool.reserve_bytes + pool.kv_bytes;
    if (bytes <= memory.peak_bytes) continue;
    memory.peak_bytes = bytes;
    memory.capacity_bytes = pool.capacity_bytes;
  }
  memory.fits = memory.peak_bytes <= memory.capacity_bytes;
  memory.fits_probability = result.fits_probability;
  return memory;
}

}  // namespace plumbline::model
