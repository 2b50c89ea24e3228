// Causal attention of one head of one sequence in double precision, row by row.
#pragma once

#include <cstddef>
#include <vector>

namespace plumbline::real::cuda {

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

}  // namespace plumbline::real::cuda
