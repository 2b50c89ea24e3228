// Rotation of query and key heads by position (RoPE).
#pragma once

#include <cuda_runtime_api.h>

#include "real/cuda/tensor_view.h"

namespace plumbline::real::cuda {

struct RotaryForm {
  std::int64_t heads = 1, head_dim = 0, rope_dim = 0;  // the last rope_dim columns of every head
  std::int64_t sequence_length = 0;
  double theta = 10000.0;
  float direction = 1.0f;                 // -1: backwards, for the gradient
  const std::int32_t* lengths = nullptr;  // tokens of each sequence before these; nullptr: none
};

// Formats are any. rope_dim is at most 1024, else the result is cudaErrorInvalidValue. y is not x.
cudaError_t rotary(const TensorView& x, const TensorView& y, const RotaryForm& form, cudaStream_t stream);

}  // namespace plumbline::real::cuda
