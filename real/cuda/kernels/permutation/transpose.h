// Transposes, in the same or another format.
#pragma once

#include <cuda_runtime_api.h>

#include "real/cuda/tensor_view.h"

namespace plumbline::real::cuda {

// x has stacked matrices [n, m], y as many matrices [m, n] (y.columns = n). New scales are along n. With a row map, x
// is one matrix: row i < n is x[row_map[i]], or zeros if that lies outside of x. Sizes are any; multiples of 8 are
// fast. fp8_block is made only from fp8_block (turn_blocks), else the result is cudaErrorNotSupported.
cudaError_t transpose(const TensorView& x, const std::int32_t* row_map, const TensorView& y, cudaStream_t stream);

// Transposes fp8_block to fp8_block: bytes and scales are moved, nothing is rounded.
cudaError_t turn_blocks(const TensorView& x, const TensorView& y, cudaStream_t stream);

}  // namespace plumbline::real::cuda
