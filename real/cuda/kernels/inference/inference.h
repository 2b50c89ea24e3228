// Kernels of passes of inference: caches of keys and values, attention over them, GEMMs of heads, the choice of the
// next token. They are simple: a thread takes an element, a block a query. Formats are any unless stated; stored ones
// have no scales (is_float).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "real/cuda/tensor_view.h"

namespace plumbline::real::cuda {

// The tokens of a pass: `fresh` new ones of each request, after lengths[request] earlier ones.
struct NewTokens {
  const std::int32_t* lengths = nullptr;
  std::int64_t requests = 0, fresh = 0;
};

// cache[request * (cache.rows / requests) + position, first_column + c] = rows[t, c].
cudaError_t append_rows(const NewTokens& tokens, const TensorView& rows, const TensorView& cache,
                        std::int64_t first_column, cudaStream_t stream);

struct CachedAttentionTask {
  TensorView q, keys, values, o;  // values: the first columns of keys where they are latent
  NewTokens tokens;
  std::int64_t query_heads = 0, key_value_heads = 0, query_key_dim = 0, value_dim = 0;
  std::int64_t window = 0;  // latest tokens that a query sees, itself included; 0: all
  float scale = 1;
  bool alibi = false;
};
constexpr std::int64_t widest_cached_value = 1024;  // columns of a head; wider ones return cudaErrorInvalidValue
cudaError_t cached_attention(const CachedAttentionTask& task, cudaStream_t stream);

// y[t, h * (b + copied) + i] = sum over j of x[t, h * (a + copied) + j] * w[h * b + i, j], then the copied columns.
cudaError_t head_matmul(const TensorView& x, const TensorView& w, const TensorView& y, std::int64_t heads,
                        std::int64_t copied, cudaStream_t stream);

// y[r] = x[(r + 1) * fresh - 1].
cudaError_t last_rows(const TensorView& x, std::int64_t fresh, const TensorView& y, cudaStream_t stream);

// ids[t] = the column of the largest of logits / temperature + Gumbel noise, or of the largest logit for a temperature
// of 0. The parts of the vocabulary stand below each other. The noise depends on seed, first_request + t and column.
struct SampleRule {
  float temperature = 0;
  std::uint64_t seed = 0;
  std::int64_t first_request = 0;
};
cudaError_t sample(const TensorView& logits, const SampleRule& rule, std::int32_t* ids, std::int64_t tokens,
                   cudaStream_t stream);

}  // namespace plumbline::real::cuda
