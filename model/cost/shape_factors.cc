#include "model/cost/shape_factors.h"

#include <array>
#include <cmath>

#include "model/base/random.h"

namespace plumbline::model {

std::string_view to_string(CostFamily family) {
  constexpr std::array<std::string_view, cost_families> names = {
      "gemm",       "grouped_gemm", "attention",          "memory_bound",    "collective",
      "all_to_all", "small_gemm",   "small_grouped_gemm", "cached_attention"};
  return names[static_cast<std::size_t>(family)];
}

ShapeKey shape_key(CostFamily family, std::initializer_list<double> numbers) {
  std::uint64_t hash = 0;
  for (const double number : numbers) hash = Random(hash ^ static_cast<std::uint64_t>(std::llround(number))).next();
  return {family, hash};
}

}  // namespace plumbline::model
