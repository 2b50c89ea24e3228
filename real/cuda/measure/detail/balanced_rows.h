// Deterministic, balanced routing, for measurements of the permutation.
#pragma once

#include <cstdint>

namespace plumbline::real::cuda {

// Returns the token of output row `row`. Rows are ordered by expert, of `top_k * spread` experts; every token has
// exactly top_k of them, and tokens ascend within an expert. `spread` divides `tokens`.
inline std::int64_t permuted_source(std::int64_t row, std::int64_t tokens, std::int64_t spread) {
  const std::int64_t rows_per_expert = tokens / spread;
  const std::int64_t expert = row / rows_per_expert;
  const std::int64_t within = row % rows_per_expert;
  return within * spread + (expert % spread + within + expert / spread) % spread;
}

}  // namespace plumbline::real::cuda
