// Parameters in FP8. A block of 128 x 128 has one scale, but optimizers and gathers see a unit's parameters as one
// vector that is cut anywhere; so that vector is held in BF16, and each matrix has FP8 values of its own, made anew
// when the vector has changed.
#pragma once

#include <cstdint>
#include <memory>

#include "model/graph/graph.h"
#include "real/cuda/device/buffer.h"
#include "real/cuda/status.h"

namespace plumbline::real::cuda {

// The format of a tensor's memory: for a vector of FP8 blocks, that of which they are made.
std::optional<Format> held_format(const model::Tensor& tensor);

// The tensor's elements in `flat` ([n], 1 column) from `first` on. Fails where they do not lie in whole vectors of 16
// bytes, or formats do not fit.
Status make_view(CudaBuffer& flat, std::int64_t first, const model::Tensor& tensor, std::unique_ptr<CudaBuffer>& view);

// Whether a buffer is a parameter in FP8 whose vector has changed.
bool is_behind(const CudaBuffer& buffer);
// Brings the values of such a parameter up to date.
Status refresh(CudaBuffer& buffer, cudaStream_t stream);

}  // namespace plumbline::real::cuda
