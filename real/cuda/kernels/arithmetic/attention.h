// Attention on single scores, for kernels and for tests on the CPU.
#pragma once

#include "real/cuda/kernels/arithmetic.h"

namespace plumbline::real::cuda {

// Returns whether query `t` of a sequence sees key `s`: the latest `window` tokens, itself included; 0: all before it.
PLUMBLINE_HOST_DEVICE inline bool sees(std::int64_t t, std::int64_t s, std::int64_t window) {
  return s <= t && (window == 0 || s > t - window);
}

// Returns the penalty per token of distance on a score of query head `head` (ALiBi).
PLUMBLINE_HOST_DEVICE inline float alibi_slope(std::int64_t head, std::int64_t heads) {
  return exp2f(-8.0f * static_cast<float>(head + 1) / static_cast<float>(heads));
}

// A sum of exponentials relative to the largest exponent so far.
struct RunningSoftmax {
  float largest = -INFINITY, sum = 0.0f;
};

// Adds keys whose largest score is `largest` and whose exponentials, relative to merged_largest(), sum to `sum`.
// Returns the factor for all earlier sums.
PLUMBLINE_HOST_DEVICE inline float merged_largest(const RunningSoftmax& softmax, float largest) {
  return fmaxf(softmax.largest, largest);
}
PLUMBLINE_HOST_DEVICE inline float take_up(RunningSoftmax& softmax, float largest, float sum) {
  const float merged = merged_largest(softmax, largest);
  const float shrink = softmax.sum > 0.0f ? expf(softmax.largest - merged) : 0.0f;
  softmax.largest = merged;
  softmax.sum = softmax.sum * shrink + sum;
  return shrink;
}

PLUMBLINE_HOST_DEVICE inline float log_sum_exp(const RunningSoftmax& softmax) {
  return softmax.largest + logf(softmax.sum);
}

// The gradient of a scaled score: `inner` is the sum over keys of p * dp, which is do . o.
PLUMBLINE_HOST_DEVICE inline float score_gradient(float p, float dp, float inner, float scale) {
  return scale * p * (dp - inner);
}

}  // namespace plumbline::real::cuda
