// Routing without randomness, for the permutation that is measured.
#pragma once

#include <cstdint>

namespace plumbline::real::cuda {

// Rows ordered by expert, `top_k * spread` experts, every token with exactly top_k of them, tokens ascending within an
// expert. The token behind output row `row`; spread divides `tokens`.
inline std::int64_t permuted_source(std::int64_t row, std::int64_t tokens, std::int64_t spread) {
  const std::int64_t rows_per_expert = tokens / spread;
  const std::int64_t expert = row / rows_per_expert;
  const std::int64_t within = row % rows_per_expert;
  return within * spread + (expert % spread + within + expert / spread) % spread;
}

}  // namespace plumbline::real::cuda
