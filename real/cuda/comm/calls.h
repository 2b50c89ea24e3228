// The kernel of an exchange as its parts are named.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <variant>

#include "real/cuda/comm/dispatch_layout.h"
#include "real/cuda/device/buffer.h"
#include "real/executor/communicator.h"

namespace plumbline::real::cuda {

inline CudaBuffer& in(const Kernel& kernel, std::size_t i) { return static_cast<CudaBuffer&>(*kernel.reads[i]); }
inline CudaBuffer& out(const Kernel& kernel, std::size_t i) { return static_cast<CudaBuffer&>(*kernel.writes[i]); }

ExpertHomes homes_of(const Group& group, const Kernel& kernel);
std::int64_t token_bytes_of(const Kernel& kernel);

// What dispatch left with the indices, for tensors of as many rows as were received (or nullptr: not asked).
Status find_map(const Kernel& kernel, std::size_t indices, const CudaBuffer* received,
                std::shared_ptr<const DispatchLayout>& map);
// dispatch: makes the outputs fit, and leaves what the host knows with the buffers.
Status receive(const Kernel& kernel, const std::shared_ptr<DispatchLayout>& map,
               std::vector<std::int64_t> rows_per_expert);
RouteTask task_of(const DispatchLayout& map, const CudaBuffer& indices);
// combine and dispatch_grad: rows to be summed lie at `rows`, gradients of weights (or nullptr) at `small`.
Status make_sum(const Kernel& kernel, const DispatchLayout& map, const TensorView& rows, const float* small,
                RowSum& sum);

}  // namespace plumbline::real::cuda
