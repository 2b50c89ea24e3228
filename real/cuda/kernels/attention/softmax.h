// Probabilities of attention over stored scores [tokens, heads * keys], and their gradient.
#pragma once

#include <cuda_runtime_api.h>

#include "real/cuda/tensor_view.h"

namespace plumbline::real::cuda {

// Which keys of its sequence a query sees, and what is added to its scores (AttentionAttributes).
struct SoftmaxForm {
  std::int64_t heads = 1, sequence_length = 0;
  std::int64_t window = 0;  // latest tokens; 0: all
  bool alibi = false;
};

// Formats without scales, sequences of at most widest_row tokens (limits.h), else cudaErrorInvalidValue. 0 for keys
// that are not seen.
cudaError_t softmax(const TensorView& scores, const TensorView& probabilities, const SoftmaxForm& form,
                    cudaStream_t stream);
cudaError_t softmax_grad(const TensorView& d_probabilities, const TensorView& probabilities, const TensorView& d_scores,
                         const SoftmaxForm& form, cudaStream_t stream);

}  // namespace plumbline::real::cuda
