// Softmax of stored attention scores [tokens, heads * keys], and its gradient.
#pragma once

#include <cuda_runtime_api.h>

#include "real/cuda/tensor_view.h"

namespace plumbline::real::cuda {

// The keys of its sequence that a query sees, and the bias of its scores (AttentionAttributes).
struct SoftmaxForm {
  std::int64_t heads = 1, sequence_length = 0;
  std::int64_t window = 0;  // latest tokens; 0: all
  bool alibi = false;
};

// Formats have no scales; sequences have at most widest_row tokens (limits.h), else the result is
// cudaErrorInvalidValue. Keys that are not seen get 0.
cudaError_t softmax(const TensorView& scores, const TensorView& probabilities, const SoftmaxForm& form,
                    cudaStream_t stream);
cudaError_t softmax_grad(const TensorView& d_probabilities, const TensorView& probabilities, const TensorView& d_scores,
                         const SoftmaxForm& form, cudaStream_t stream);

}  // namespace plumbline::real::cuda
