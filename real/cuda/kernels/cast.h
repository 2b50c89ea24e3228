// Casts between formats.
#pragma once

#include <cuda_runtime_api.h>

#include "real/cuda/tensor_view.h"

namespace plumbline::real::cuda {

// Casts x to the format of y, with new scales. For fp8_tensor the largest value is found first.
cudaError_t cast(const TensorView& x, const TensorView& y, cudaStream_t stream);

// Casts to fp8_block, with a scale for each block of 128 x 128 of each matrix.
cudaError_t cast_blocks(const TensorView& x, const TensorView& y, cudaStream_t stream);

// Sets the only scale of y (fp8_tensor) from the largest value of x.
cudaError_t find_scale(const TensorView& x, const TensorView& y, cudaStream_t stream);

}  // namespace plumbline::real::cuda
