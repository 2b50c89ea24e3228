// Scales of FP8 operands, laid out for cuBLASLt right before the product that reads them.
#pragma once

#include <cuda_runtime_api.h>

#include "real/cuda/matrix_part.h"
#include "real/cuda/status.h"

namespace plumbline::real::cuda {

// The floats of memory that lay_out_scales() may want for these rows, in multiples of 256 bytes; 0 for a format whose
// scales need no other order.
std::int64_t scale_room(const MatrixPart& part);

// `scales`: where those of the part's first row lie now: in `room`, or in the tensor where the order is the same;
// nullptr for a format without scales. The part has all columns of its tensor, and of blocks of 128 rows all rows.
Status lay_out_scales(const MatrixPart& part, float* room, cudaStream_t stream, const float*& scales);

// The scales of a part's rows where they lie in the tensor.
const float* stored_scales(const MatrixPart& part);

// The scale blocks of one row after cuBLASLt's order of 128 x 128 blocks.
std::int64_t square_row(const TensorView& tensor);

}  // namespace plumbline::real::cuda
