// Rows of tensors as exchanges move them: what lies in memory of a row, and what a record of it is on its way to
// another node.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "real/cuda/comm/dispatch_layout.h"
#include "real/cuda/device/buffer.h"
#include "real/cuda/kernels/all_to_all/all_to_all.h"
#include "real/cuda/memory.h"
#include "real/cuda/status.h"

namespace plumbline::real::cuda {

// Bytes of a row's values and of its scales. Fails for formats whose scales belong to more than one row.
struct RowBytes {
  std::int64_t values = 0, scales = 0;
};
Status row_bytes(const TensorView& x, RowBytes& bytes);

// Appends what a row of `from` holds, to go into the same row of `to`.
Status add_planes(const TensorView& from, const TensorView& to, RowCopy& copy);

// Pinned memory of the host that is written round and round and never read: where the network's bytes go when there is
// no other node.
class HostSink {
 public:
  // Fills in where `rows` records of `departures` go. The memory is taken at the first call.
  Status take(std::int64_t record_bytes, SendBuffer& send_buffer);

 private:
  PinnedMemory memory_;
  bool open_ = false;
  std::int64_t at_ = 0;  // bytes
};

// Rows of the map's tokens to other nodes: records of these planes behind each other, each at a multiple of 16 bytes.
// Their `to` becomes the ring's.
struct Wire {
  double gbps = 0;               // GB/s; 0: nothing leaves the node
  std::int64_t token_bytes = 0;  // that a token counts for; 0: its record's
};
Status set_send_buffer(const DispatchLayout& map, const Wire& wire, std::initializer_list<Plane> planes, HostSink& sink,
                       SendBuffer& send_buffer);

}  // namespace plumbline::real::cuda
