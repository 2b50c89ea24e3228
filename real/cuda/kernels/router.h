// The choice of experts on a GPU, with a warp per token.
#pragma once

#include <cuda_runtime_api.h>

#include "real/cuda/kernels/arithmetic/router.h"
#include "real/cuda/tensor_view.h"

namespace plumbline::real::cuda {

// The limits of one warp: 16 experts per lane, one slot per lane.
constexpr int most_routed_experts = 512;
constexpr int most_experts_per_token = 32;

// logits are [T,E] in any format without scales, bias [E] FP32, indices [T,k] int32 and weights [T,k] FP32. If `loads`
// [E] FP32 is given, the number of tokens of each expert is added to it: whole numbers, exact below 2^24.
cudaError_t route(const RouterRule& rule, const TensorView& logits, const float* bias, std::int32_t* indices,
                  float* weights, float* loads, cudaStream_t stream);

// d_weights are [T,k] FP32, d_logits [T,E] in any format without scales.
cudaError_t route_gradient(const RouterRule& rule, const float* d_weights, const TensorView& logits,
                           const std::int32_t* indices, const TensorView& d_logits, cudaStream_t stream);

}  // namespace plumbline::real::cuda
