// Parameters in FP8. A block of 128 x 128 has one scale, but optimizers and gathers treat a unit's parameters as one
// vector that is cut anywhere. That vector is therefore held in BF16; each matrix has its own FP8 values, which are
// made anew after the vector has changed.
#pragma once

#include <cstdint>
#include <memory>

#include "model/graph/graph.h"
#include "real/cuda/device/buffer.h"
#include "real/cuda/status.h"

namespace plumbline::real::cuda {

// Returns the format of a tensor's memory: BF16 for a vector from which FP8 blocks are made.
std::optional<Format> held_format(const model::Tensor& tensor);

// Makes a buffer of the tensor's elements, from `first` on in `flat` ([n], 1 column). It fails if they do not lie in
// whole vectors of 16 bytes, or if the formats do not fit.
Status make_view(CudaBuffer& flat, std::int64_t first, const model::Tensor& tensor, std::unique_ptr<CudaBuffer>& view);

// Returns whether a buffer is a parameter in FP8 whose vector has changed.
bool is_behind(const CudaBuffer& buffer);
// Updates the FP8 values of such a parameter.
Status refresh(CudaBuffer& buffer, cudaStream_t stream);

}  // namespace plumbline::real::cuda
