#include "model/result/serving_result.h"

#include <array>
#include <cstddef>

namespace plumbline::model {

std::string_view to_string(ServingBound bound) {
  constexpr std::array<std::string_view, 6> names = {"weights", "kv", "compute", "links", "latency", "host"};
  return names[static_cast<std::size_t>(bound)];
}

}  // namespace plumbline::model
