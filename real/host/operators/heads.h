// Heads and masks of attention, for its fused and unfused operators.
#pragma once

#include <cmath>

#include "real/host/operators/rows.h"

namespace plumbline::real::host {

// Which keys a query attends to, and the ALiBi bias of its scores (Press et al. 2021, arXiv 2108.12409).
struct Visibility {
  Index window = 0;  // number of latest keys; 0: all
  bool alibi = false;
  Index query_heads = 1;

  // Takes the attributes of any attention.
  explicit Visibility(const auto& a) : window(a.window), alibi(a.alibi), query_heads(a.query_heads) {}

  // Returns the first key that query t of a sequence attends to; the last is t itself.
  Index first_key(Index t) const { return window > 0 ? std::max<Index>(0, t - window + 1) : 0; }
  float slope(Index head) const {
    return static_cast<float>(std::exp2(-8.0 * static_cast<double>(head + 1) / static_cast<double>(query_heads)));
  }
  // Adds the ALiBi bias to scores of consecutive keys, the last of which is at the query's position.
  void add_bias(Index head, ArrayMap scores) const {
    if (!alibi) return;
    const auto farthest = static_cast<float>(scores.size() - 1);
    scores -= slope(head) * Eigen::ArrayXf::LinSpaced(scores.size(), farthest, 0.0F);
  }
};

// Replaces scores by exp(score - m) with m the largest score; returns their sum and m.
struct Exponentials {
  float sum = 0, largest = 0;
};
inline Exponentials exponentiate(ArrayMap scores) {
  const float largest = scores.maxCoeff();
  scores = (scores - largest).exp();
  return {scores.sum(), largest};
}

}  // namespace plumbline::real::host
