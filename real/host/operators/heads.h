// Heads and masks of attention, for its fused and its unfused operators.
#pragma once

#include <cmath>

#include "real/host/operators/rows.h"

namespace plumbline::real::host {

// Which keys a query sees, and what is added to its scores.
struct Visibility {
  Index window = 0;  // latest tokens; 0: all
  bool alibi = false;
  Index query_heads = 1;

  explicit Visibility(const model::AttentionAttributes& a)
      : window(a.window), alibi(a.alibi), query_heads(a.query_heads) {}

  // The first key that query t of a sequence sees; the last is t itself.
  Index first_key(Index t) const { return window > 0 ? std::max<Index>(0, t - window + 1) : 0; }
  float slope(Index head) const {
    return static_cast<float>(std::exp2(-8.0 * static_cast<double>(head + 1) / static_cast<double>(query_heads)));
  }
  // Adds ALiBi to scores of consecutive keys of which the last lies at the query.
  void add_bias(Index head, ArrayMap scores) const {
    if (!alibi) return;
    const auto farthest = static_cast<float>(scores.size() - 1);
    scores -= slope(head) * Eigen::ArrayXf::LinSpaced(scores.size(), farthest, 0.0F);
  }
};

// Scores become exp(score - m), m the largest; returns their sum and m.
struct Exponentials {
  float sum = 0, largest = 0;
};
inline Exponentials exponentiate(ArrayMap scores) {
  const float largest = scores.maxCoeff();
  scores = (scores - largest).exp();
  return {scores.sum(), largest};
}

}  // namespace plumbline::real::host
