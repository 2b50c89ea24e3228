// Cross-entropy over a vocabulary, with one block per token.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "real/cuda/kernels/arithmetic/tokens.h"
#include "real/cuda/tensor_view.h"

namespace plumbline::real::cuda {

// Writes the log-sum-exp of each token's logits [T] and its loss [T] (0 without a label). If `logarithms` has memory,
// it gets the logarithms of the probabilities [T,V].
cudaError_t token_losses(const TensorView& logits, const Labels& labels, float* log_sum_exp, float* losses,
                         const TensorView& logarithms, cudaStream_t stream);

// Writes the partial sums [T,3] of one rank's part of the vocabulary: exponentials, the label's logit, and 1 if the
// rank has the label of a token with a loss. The caller adds them over ranks.
cudaError_t loss_figures(const TensorView& logits, const Labels& labels, float* figures, cudaStream_t stream);

// loss[0] = weight * the mean of the labeled tokens' losses, added in double precision in a fixed order.
cudaError_t mean_loss(const float* losses, const Labels& labels, std::int64_t tokens, double weight, float* loss,
                      cudaStream_t stream);

// Writes the number of tokens with a loss to count[0].
cudaError_t count_labeled(const Labels& labels, std::int64_t tokens, std::int64_t* count, cudaStream_t stream);

// d_logits = weight / count * (probability - 1 at the label). The log-sum-exp of token t is the logarithm of sums[t *
// stride] if they are sums, else that number; 0 if `sums` is null.
struct LossGradient {
  const float* sums = nullptr;
  std::int64_t stride = 1;
  bool are_logarithms = true;
  double weight = 1;
  const std::int64_t* count = nullptr;  // labeled tokens, on the device
};
cudaError_t loss_gradient(const TensorView& logits, const Labels& labels, const LossGradient& gradient,
                          const TensorView& d_logits, cudaStream_t stream);

}  // namespace plumbline::real::cuda
