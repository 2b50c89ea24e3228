// Tensors between the host, which holds floats, and the device, which holds them in their formats. Slow: for inputs,
// parameters and what people read.
#pragma once

#include <cuda_runtime_api.h>

#include <span>

#include "real/cuda/status.h"
#include "real/cuda/tensor_view.h"

namespace plumbline::real::cuda {

// `tensor` lies in the host's memory, laid out as on the device; `values` are its elements, row by row. Scales are the
// smallest that let no element of their tile, block or tensor overflow; whole numbers are rounded.
void encode(std::span<const float> values, const TensorView& tensor);
void decode(const TensorView& tensor, std::span<float> values);

// All elements, row by row, rounded to the tensor's format. Both wait until the stream has copied.
Status upload(std::span<const float> values, const TensorView& to, cudaStream_t stream);
Status download(const TensorView& from, std::span<float> values, cudaStream_t stream);

}  // namespace plumbline::real::cuda
