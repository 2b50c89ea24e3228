// Plumbline's own causal attention, for cases without cuDNN: FP32, windows, ALiBi, and machines that lack it. Tiles of
// scores are made in shared memory and never stored; the gradient makes them again. Sums have a fixed order.
#pragma once

#include <cuda_runtime_api.h>

#include "real/cuda/tensor_view.h"

namespace plumbline::real::cuda {

// Tensors are fp32, bf16 or fp16, with shape [sequences * length, heads * dim].
struct AttentionTask {
  TensorView q, k, v, o;
  float* log_sum_exp = nullptr;  // [sequences * length, query heads]
  TensorView d_o, dq, dk, dv;    // for the gradient only
  float* inner = nullptr;        // scratch of the gradient, as large as log_sum_exp
  std::int64_t sequences = 0, length = 0, query_heads = 0, key_value_heads = 0, query_key_dim = 0, value_dim = 0;
  std::int64_t window = 0;  // latest tokens that a query sees, itself included; 0: all
  bool alibi = false;
};

// Writes o and log_sum_exp. Heads that do not fit in shared memory (wider than about 256) return cudaErrorInvalidValue.
cudaError_t attention_forward(const AttentionTask& task, cudaStream_t stream);

// Reads d_o, q, k, v, o and log_sum_exp; writes dq, dk, dv.
cudaError_t attention_backward(const AttentionTask& task, cudaStream_t stream);

// --- Softmax of stored attention scores [tokens, heads * keys], and its gradient ---

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
