// The choice of experts on a GPU: a warp per token.
#pragma once

#include <cuda_runtime_api.h>

#include "real/cuda/kernels/arithmetic/router.h"
#include "real/cuda/tensor_view.h"

namespace plumbline::real::cuda {

// Of one warp: 16 experts per lane, a slot per lane.
constexpr int most_routed_experts = 512;
constexpr int most_experts_per_token = 32;

// logits [T,E] in any format without scales, bias [E] FP32; indices [T,k] int32, weights [T,k] FP32. Adds the number of
// tokens of each expert to loads [E] FP32, where given: whole numbers, exact in any order below 2^24.
cudaError_t route(const RouterRule& rule, const TensorView& logits, const float* bias, std::int32_t* indices,
                  float* weights, float* loads, cudaStream_t stream);

// d_weights [T,k] FP32; d_logits [T,E] in any format without scales.
cudaError_t route_gradient(const RouterRule& rule, const float* d_weights, const TensorView& logits,
                           const std::int32_t* indices, const TensorView& d_logits, cudaStream_t stream);

}  // namespace plumbline::real::cuda
