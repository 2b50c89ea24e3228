// Between formats.
#pragma once

#include <cuda_runtime_api.h>

#include "real/cuda/tensor_view.h"

namespace plumbline::real::cuda {

// The same values in another format, new scales included. To fp8_tensor the largest value is found first; fp8_block is
// cudaErrorNotSupported: weights are cast by the optimizer.
cudaError_t cast(const TensorView& x, const TensorView& y, cudaStream_t stream);

// Sets the one scale of y, fp8_tensor, by the largest value of x.
cudaError_t find_scale(const TensorView& x, const TensorView& y, cudaStream_t stream);

}  // namespace plumbline::real::cuda
