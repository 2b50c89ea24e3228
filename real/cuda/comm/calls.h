// Steps that the kernels of an expert all-to-all share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "real/cuda/comm/dispatch_layout.h"
#include "real/cuda/device/buffer.h"
#include "real/executor/communicator.h"

namespace plumbline::real::cuda {

inline CudaBuffer& in(const Kernel& kernel, std::size_t i) { return static_cast<CudaBuffer&>(*kernel.reads[i]); }
inline CudaBuffer& out(const Kernel& kernel, std::size_t i) { return static_cast<CudaBuffer&>(*kernel.writes[i]); }

ExpertHomes homes_of(const Group& group, const Kernel& kernel);
std::int64_t token_bytes_of(const Kernel& kernel);

// Finds the layout that dispatch stored with the indices. It fails if `received`, unless nullptr, does not have as many
// rows as were received.
Status find_layout(const Kernel& kernel, std::size_t indices, const CudaBuffer* received,
                   std::shared_ptr<const DispatchLayout>& layout);
// For dispatch: resizes the outputs, and stores with the buffers what the host has of their contents.
Status receive(const Kernel& kernel, const std::shared_ptr<DispatchLayout>& layout,
               std::vector<std::int64_t> rows_per_expert);
RouteTask task_of(const DispatchLayout& layout, const CudaBuffer& indices);
// For combine and dispatch_grad: `rows` are the rows to sum, `small` the gradients of weights (or nullptr).
Status make_sum(const Kernel& kernel, const DispatchLayout& layout, const TensorView& rows, const float* small,
                RowSum& sum);

}  // namespace plumbline::real::cuda
