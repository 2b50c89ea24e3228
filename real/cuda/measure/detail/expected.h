// What the checks of measured kernels expect, in double precision and without a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace plumbline::real::cuda {

// --- Causal attention of one head of one sequence, row by row ---

using Rows = std::vector<std::vector<double>>;  // [position][dimension]

// One head: position i sees the keys 0 to i. Scores are divided by the square root of the queries' dimension.
struct AttentionHead {
  Rows q, k, v;
  Rows d_o;                                 // gradient of the output; for gradients only
  std::vector<double> log_sum_exp, deltas;  // per position, for key_gradients: deltas are d_o . o
};

struct AttentionRow {
  std::vector<double> output;
  double log_sum_exp = 0;
};
AttentionRow attention_row(const AttentionHead& head, std::size_t position);

// Returns the gradient of the query at `position`.
std::vector<double> query_gradient(const AttentionHead& head, std::size_t position);

// Adds the contribution of this head's queries to the gradients of the key and the value at `position`.
void add_key_gradients(const AttentionHead& head, std::size_t position, std::vector<double>& dk,
                       std::vector<double>& dv);

// --- Deterministic, balanced routing, for measurements of the permutation ---

// Returns the token of output row `row`. Rows are ordered by expert, of `top_k * spread` experts; every token has
// exactly top_k of them, and tokens ascend within an expert. `spread` divides `tokens`.
inline std::int64_t permuted_source(std::int64_t row, std::int64_t tokens, std::int64_t spread) {
  const std::int64_t rows_per_expert = tokens / spread;
  const std::int64_t expert = row / rows_per_expert;
  const std::int64_t within = row % rows_per_expert;
  return within * spread + (expert % spread + within + expert / spread) % spread;
}

// --- Collectives ---

// Its size is that of NCCL's own benchmark: the buffer of an all-reduce, the gathered or scattered whole, all that one
// rank sends in an all-to-all.
struct CollectivePlace {
  std::string op;
  int rank = 0, ranks = 1;
  std::int64_t elements = 0;  // of the whole; a multiple of `ranks`
};

// Elements that each rank sends and receives.
std::int64_t elements_given(const CollectivePlace& place);
std::int64_t elements_got(const CollectivePlace& place);

// Returns element `index` of what this rank receives, where rank r sends input(r, i).
double expected_element(const CollectivePlace& place, std::int64_t index,
                        const std::function<double(int, std::int64_t)>& input);

}  // namespace plumbline::real::cuda
