// Lays out the scales of FP8 operands for cuBLASLt, right before the GEMM that reads them.
#pragma once

#include <cuda_runtime_api.h>

#include "real/cuda/matrix_part.h"
#include "real/cuda/status.h"

namespace plumbline::real::cuda {

// Returns the scratch floats that lay_out_scales() may need for these rows, in multiples of 256 bytes; 0 for a format
// whose scales keep their order.
std::int64_t scale_room(const MatrixPart& part);

// Points `scales` at those of the part's first row: in `scratch`, or in the tensor if the order is the same; nullptr
// for a format without scales. The part has all columns of its tensor, and whole blocks of 128 rows.
Status lay_out_scales(const MatrixPart& part, float* scratch, cudaStream_t stream, const float*& scales);

// The scales of a part's rows in the tensor.
const float* stored_scales(const MatrixPart& part);

// The number of scales per row of 128 x 128 blocks in cuBLASLt's order.
std::int64_t square_row(const TensorView& tensor);

}  // namespace plumbline::real::cuda
