// Numbers of the host in the formats of the device, and back. Bytes are those that kernels read and write: the
// functions of real/cuda/kernels/arithmetic.h make them on either side.
#pragma once

#include <span>

#include "real/cuda/tensor_view.h"

namespace plumbline::real::cuda {

// `tensor` lies in the host's memory, laid out as on the device; `values` are its elements, row by row. Scales are the
// smallest that let no element of their tile, block or tensor overflow; whole numbers are rounded.
void encode(std::span<const float> values, const TensorView& tensor);
void decode(const TensorView& tensor, std::span<float> values);

}  // namespace plumbline::real::cuda
