// Parameters in FP8. A block of 128 x 128 has one scale, but optimizers and gathers see a unit's parameters as one
// vector that is cut anywhere; so that vector is held in BF16, and each matrix has FP8 values of its own, made anew
// when the vector has changed.
#pragma once

#include <cstdint>
#include <memory>

#include "model/graph/graph.h"
#include "real/cuda/device/buffer.h"
#include "real/cuda/device/machine.h"
#include "real/cuda/status.h"

namespace plumbline::real::cuda {

// The format of a tensor's memory: for a vector of FP8 blocks, that of which they are made.
std::optional<Format> held_format(const model::Tensor& tensor);

// The tensor's elements in `flat` ([n], 1 column) from `first` on. Fails where they do not lie in whole vectors of 16
// bytes, or formats do not fit.
Status make_view(CudaBuffer& flat, std::int64_t first, const model::Tensor& tensor, std::unique_ptr<CudaBuffer>& view);

// Brings the FP8 values of a parameter up to date; nothing to do for any other buffer.
Status refresh(CudaBuffer& buffer, Machine& machine, cudaStream_t stream);

}  // namespace plumbline::real::cuda
