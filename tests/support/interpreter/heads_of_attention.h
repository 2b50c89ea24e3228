// Heads and masks of attention, for its fused and its unfused operators.
#pragma once

#include <cmath>
#include <vector>

#include "tests/support/interpreter/interpreter.h"

namespace plumbline::tests {

// The place of one query head of one sequence in q, k, v and o.
struct Head {
  Index from, length, query, key, value, output, query_key_dim, value_dim, number;

  auto q(const auto& m) const { return m.block(from, query, length, query_key_dim); }
  auto k(const auto& m) const { return m.block(from, key, length, query_key_dim); }
  auto v(const auto& m) const { return m.block(from, value, length, value_dim); }
  auto o(const auto& m) const { return m.block(from, output, length, value_dim); }
  double scale() const { return 1 / std::sqrt(static_cast<double>(query_key_dim)); }
};

inline std::vector<Head> heads(const model::AttentionAttributes& a, Index tokens) {
  std::vector<Head> result;
  const Index shared_by = a.query_heads / a.key_value_heads;
  for (Index from = 0; from < tokens; from += a.sequence_length)
    for (Index h = 0; h < a.query_heads; ++h)
      result.push_back({from, a.sequence_length, h * a.query_key_dim, h / shared_by * a.query_key_dim,
                        h / shared_by * a.value_dim, h * a.value_dim, a.query_key_dim, a.value_dim, h});
  return result;
}

// Returns the bias of the score of query t and key s of a sequence: -infinity where the mask excludes it, else ALiBi.
inline double score_bias(const model::AttentionAttributes& a, Index head, Index t, Index s) {
  if (s > t || (a.window > 0 && t - s >= a.window)) return -INFINITY;
  const double slope = std::exp2(-8.0 * static_cast<double>(head + 1) / static_cast<double>(a.query_heads));
  return a.alibi ? -slope * static_cast<double>(t - s) : 0;
}

// Returns the scores of one head with their bias.
inline Matrix biased(const model::AttentionAttributes& a, Index head, const Matrix& scores) {
  return scores +
         Matrix::NullaryExpr(scores.rows(), scores.cols(), [&](Index t, Index s) { return score_bias(a, head, t, s); });
}

}  // namespace plumbline::tests
