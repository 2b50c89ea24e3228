// AdamW as inline functions for the host and the device compiler.
#pragma once

#include <cmath>
#include <cstdint>

#include "real/cuda/kernels/arithmetic.h"

namespace plumbline::real::cuda {

// The factors of one step, computed in double precision: m / (1 - beta1^t) over sqrt(v / (1 - beta2^t)) + epsilon, with
// both sides times sqrt(1 - beta2^t).
struct UpdateRule {
  float beta1 = 0, first_rest = 1;   // first_rest = 1 - beta1
  float beta2 = 0, second_rest = 1;  // second_rest = 1 - beta2
  float size = 0;                    // of a step in the direction of m / (sqrt(v) + epsilon)
  float epsilon = 0;
  float kept = 1;  // factor of a weight by its decay
};

struct UpdateNumbers {
  double learning_rate = 0, beta1 = 0, beta2 = 0, epsilon = 0, weight_decay = 0;
  std::int64_t step = 1;  // counted from 1
};

inline UpdateRule update_rule(const UpdateNumbers& n) {
  const auto step = static_cast<double>(n.step);
  const double root = std::sqrt(1 - std::pow(n.beta2, step));
  UpdateRule rule;
  rule.beta1 = static_cast<float>(n.beta1);
  rule.first_rest = static_cast<float>(1 - n.beta1);
  rule.beta2 = static_cast<float>(n.beta2);
  rule.second_rest = static_cast<float>(1 - n.beta2);
  rule.size = static_cast<float>(n.learning_rate * root / (1 - std::pow(n.beta1, step)));
  rule.epsilon = static_cast<float>(n.epsilon * root);
  rule.kept = static_cast<float>(1 - n.learning_rate * n.weight_decay);
  return rule;
}

// The factor for gradients by which their norm becomes at most `largest`.
PLUMBLINE_HOST_DEVICE inline float clip_factor(float sum_of_squares, double largest) {
  const double norm = sqrt(static_cast<double>(sum_of_squares));
  return static_cast<float>(norm > largest ? largest / norm : 1.0);
}

// Updates one element after clipping; the moments are updated in place. Returns the new weight.
PLUMBLINE_HOST_DEVICE inline float updated_weight(const UpdateRule& rule, float gradient, float weight, float& first,
                                                  float& second) {
  first = rule.beta1 * first + rule.first_rest * gradient;
  second = rule.beta2 * second + rule.second_rest * gradient * gradient;
  return rule.kept * weight - rule.size * first / (sqrtf(second) + rule.epsilon);
}

// --- Sums over vectors of any length: each block adds a part, in the same order every time ---

constexpr std::int64_t most_sum_blocks = 1024;
constexpr std::int64_t sum_block_elements = 8192;  // fewer are not worth another block

constexpr std::int64_t sum_blocks(std::int64_t elements) {
  const std::int64_t blocks = (elements + sum_block_elements - 1) / sum_block_elements;
  return blocks < most_sum_blocks ? blocks : most_sum_blocks;
}

}  // namespace plumbline::real::cuda
