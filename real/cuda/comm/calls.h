// Steps that the kernels of an expert all-to-all share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>

#include "real/cuda/comm/dispatch_layout.h"
#include "real/cuda/device/buffer.h"
#include "real/cuda/kernels/all_to_all/all_to_all.h"
#include "real/cuda/memory.h"
#include "real/cuda/status.h"
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

// --- Rows of tensors in an all-to-all: their bytes in memory, and the record of a row that goes to another node ---

// The bytes of a row's values and of its scales. It fails for formats whose scales belong to more than one row.
struct RowBytes {
  std::int64_t values = 0, scales = 0;
};
Status row_bytes(const TensorView& x, RowBytes& bytes);

// Adds planes that copy a row of `from` into the same row of `to`.
Status add_planes(const TensorView& from, const TensorView& to, RowCopy& copy);

// Pinned host memory that is written cyclically and never read: the sink of network traffic without other nodes.
class HostSink {
 public:
  // Sets where the records of `send_buffer` go. The first call allocates the memory.
  Status take(std::int64_t record_bytes, SendBuffer& send_buffer);

 private:
  PinnedMemory memory_;
  bool open_ = false;
  std::int64_t at_ = 0;  // bytes
};

// The rows of a dispatch layout that go to other nodes: records of these planes, each plane at a multiple of 16 bytes.
// The planes' `to` becomes an address in the sink.
struct Wire {
  double gbps = 0;               // GB/s; 0: nothing leaves the node
  std::int64_t token_bytes = 0;  // counted per token; 0: the record's bytes
};
Status set_send_buffer(const DispatchLayout& layout, const Wire& wire, std::initializer_list<Plane> planes,
                       HostSink& sink, SendBuffer& send_buffer);

}  // namespace plumbline::real::cuda
