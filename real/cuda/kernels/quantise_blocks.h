// Weights in FP8 with a scale per 128 x 128 block.
#pragma once

#include <cuda_runtime_api.h>

#include "real/cuda/tensor_view.h"

namespace plumbline::real::cuda {

// y, fp8_block, takes the values of x, bf16 of the same rows and columns; columns are a multiple of 8. The matrices are
// those of y.
cudaError_t quantise_blocks(const TensorView& x, const TensorView& y, cudaStream_t stream);

}  // namespace plumbline::real::cuda
