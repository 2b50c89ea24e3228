// Cross-entropy over a vocabulary: a block per token.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "real/cuda/kernels/arithmetic/tokens.h"
#include "real/cuda/tensor_view.h"

namespace plumbline::real::cuda {

// The log-sum-exp of each token's logits [T], its loss [T] (0 where it carries none) and, where `logarithms` has
// memory, the logarithms of the probabilities [T,V].
cudaError_t token_losses(const TensorView& logits, const Labels& labels, float* log_sum_exp, float* losses,
                         const TensorView& logarithms, cudaStream_t stream);

// Of a part of the vocabulary, sums to which each rank adds its own, [T,3]: exponentials, the label's logit, and 1 for
// the rank that has the label of a token that carries a loss.
cudaError_t loss_figures(const TensorView& logits, const Labels& labels, float* figures, cudaStream_t stream);

// loss[0] = weight * the mean of the labelled tokens' losses, added in double precision in a fixed order.
cudaError_t mean_loss(const float* losses, const Labels& labels, std::int64_t tokens, double weight, float* loss,
                      cudaStream_t stream);

// How many tokens carry a loss, into count[0].
cudaError_t count_labeled(const Labels& labels, std::int64_t tokens, std::int64_t* count, cudaStream_t stream);

// d_logits = weight / count * (probability - 1 at the label). The log-sum-exp of token t: the logarithm of
// sums[t * stride] where they are sums, that number where they are not, 0 where there are none (null).
struct LossGradient {
  const float* sums = nullptr;
  std::int64_t stride = 1;
  bool are_logarithms = true;
  double weight = 1;
  const std::int64_t* count = nullptr;  // of labelled tokens, on the device
};
cudaError_t loss_gradient(const TensorView& logits, const Labels& labels, const LossGradient& gradient,
                          const TensorView& d_logits, cudaStream_t stream);

}  // namespace plumbline::real::cuda
