// Tokens, their labels and their loss, as inline functions for the host and the device compiler.
#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "real/cuda/kernels/arithmetic.h"

namespace plumbline::real::cuda {

// Orders tokens by id, then by index.
PLUMBLINE_HOST_DEVICE inline bool stands_before(std::int32_t id, std::int64_t token, std::int32_t other_id,
                                                std::int64_t other_token) {
  return id < other_id || (id == other_id && token < other_token);
}

// Returns the token whose id token t takes, `distance` later in its sequence; at most the sequence's last.
PLUMBLINE_HOST_DEVICE inline std::int64_t shifted_token(std::int64_t token, std::int64_t distance,
                                                        std::int64_t length) {
  const std::int64_t last = token - token % length + length - 1;
  return token + distance < last ? token + distance : last;
}

// The tokens that carry a loss: those with a label, except the last ones of a sequence.
struct Labels {
  const std::int32_t* ids = nullptr;  // [tokens], negative: none
  std::int64_t ignored = 0, sequence_length = 1;
  std::int64_t first = 0;  // the id of the first column of the logits in the vocabulary

  PLUMBLINE_HOST_DEVICE bool carry_loss(std::int64_t token) const {
    return ids[token] >= 0 && token % sequence_length < sequence_length - ignored;
  }
  // Returns the column of a token's label; -1 if another rank has it.
  PLUMBLINE_HOST_DEVICE std::int64_t column(std::int64_t token, std::int64_t columns) const {
    const std::int64_t at = ids[token] - first;
    return at >= 0 && at < columns ? at : -1;
  }
};

// The logarithm of a sum of exponentials, accumulated in any order without overflow.
struct LogSum {
  float largest = -FLT_MAX, sum = 0;  // of exp(value - largest)

  template <int kCount>
  PLUMBLINE_HOST_DEVICE void add(const float (&values)[kCount]) {
    float most = largest;
    PLUMBLINE_UNROLL
    for (int i = 0; i < kCount; ++i) most = fmaxf(most, values[i]);
    sum *= expf(largest - most);
    PLUMBLINE_UNROLL
    for (int i = 0; i < kCount; ++i) sum += expf(values[i] - most);
    largest = most;
  }
  PLUMBLINE_HOST_DEVICE void add(const LogSum& other) {
    const float most = fmaxf(largest, other.largest);
    sum = sum * expf(largest - most) + other.sum * expf(other.largest - most);
    largest = most;
  }
  PLUMBLINE_HOST_DEVICE float value() const { return largest + logf(sum); }
};

// The weight of one token's loss in the gradient.
PLUMBLINE_HOST_DEVICE inline float gradient_scale(double weight, std::int64_t labeled_tokens) {
  return static_cast<float>(weight / static_cast<double>(labeled_tokens > 0 ? labeled_tokens : 1));
}

}  // namespace plumbline::real::cuda
