// Transposes, in the same or another format.
#pragma once

#include <cuda_runtime_api.h>

#include "real/cuda/tensor_view.h"

namespace plumbline::real::cuda {

// x: matrices [n, m] below each other, as many as y has matrices [m, n] (y.columns = n). New scales are along n. With
// a row map, of one matrix: x[row_map[i]] takes the place of row i < n, zeros where that lies outside of x. Any number
// of rows; fast where both are multiples of 8. To fp8_block only from fp8_block (turn_blocks), else
// cudaErrorNotSupported.
cudaError_t transpose(const TensorView& x, const std::int32_t* row_map, const TensorView& y, cudaStream_t stream);

// fp8_block to fp8_block: bytes and scales change places, nothing is rounded.
cudaError_t turn_blocks(const TensorView& x, const TensorView& y, cudaStream_t stream);

}  // namespace plumbline::real::cuda
