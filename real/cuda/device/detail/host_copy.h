// Copies tensors between the host, which holds floats, and the device, which holds them in their formats. The copies
// are slow: they serve inputs, parameters and printed values.
#pragma once

#include <cuda_runtime_api.h>

#include <span>

#include "real/cuda/status.h"
#include "real/cuda/tensor_view.h"

namespace plumbline::real::cuda {

// Writes `values`, row by row, to `tensor`, which lies in host memory, laid out as on the device. Each scale is the
// smallest that lets no element of its tile, block or tensor overflow; whole numbers are rounded.
void encode(std::span<const float> values, const TensorView& tensor);
void decode(const TensorView& tensor, std::span<float> values);

// Copies all elements, row by row, rounded to the tensor's format. Both functions wait until the stream has copied.
Status upload(std::span<const float> values, const TensorView& to, cudaStream_t stream);
Status download(const TensorView& from, std::span<float> values, cudaStream_t stream);

}  // namespace plumbline::real::cuda
