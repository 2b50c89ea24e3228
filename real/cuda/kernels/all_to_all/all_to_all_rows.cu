// Copies of token rows to their receivers, and of those for other nodes to host memory.
#include "real/cuda/kernels/all_to_all/reserved_sm.cuh"

namespace plumbline::real::cuda {
namespace {

__device__ void copy_planes(const Plane* planes, int count, std::int64_t from, std::int64_t to, int lane) {
  for (int i = 0; i < count; ++i) {
    const Plane& plane = planes[i];
    copy_row(static_cast<const char*>(plane.from) + from * plane.bytes,
             static_cast<char*>(plane.to) + to * plane.to_stride, plane.bytes, lane);
  }
}

__global__ void __launch_bounds__(reserved_threads) copy_rows_kernel(RowCopy copy) {
  const SendBuffer& d = copy.send_buffer;
  take_turns(
      copy.rows, d,
      [&](std::int64_t row, int lane) {
        const std::int64_t from = copy.source == nullptr ? row : copy.source[row];
        copy_planes(copy.planes, copy.planes_count, from, row, lane);
      },
      [&](std::int64_t index, int lane) {
        copy_planes(d.planes, d.planes_count, d.tokens[listed(d, index)], record_of(d, index), lane);
      });
}

struct Repeated {
  const char* from;
  std::int64_t from_bytes;
  char* to;
  std::int64_t bytes;
};

constexpr std::int64_t slice = 8192;  // bytes that a warp takes at a time

__global__ void __launch_bounds__(reserved_threads) copy_repeated_kernel(Repeated copy) {
  const Warp warp = this_warp();
  for (std::int64_t at = warp.number * slice; at < copy.bytes; at += warp.count * slice) {
    const std::int64_t end = at + slice < copy.bytes ? at + slice : copy.bytes;
    // A slice may extend past the end of the repeated bytes.
    for (std::int64_t begin = at; begin < end;) {
      const std::int64_t source = begin % copy.from_bytes;
      const std::int64_t rest = copy.from_bytes - source;
      const std::int64_t length = end - begin < rest ? end - begin : rest;
      copy_row(copy.from + source, copy.to + begin, length, warp.lane);
      begin += length;
    }
  }
}

}  // namespace

cudaError_t copy_rows(const RowCopy& copy, const Blocks& blocks, cudaStream_t stream) {
  if (copy.rows == 0 && copy.send_buffer.rows == 0) return cudaSuccess;
  return launch_owning(copy_rows_kernel, copy, blocks, stream);
}

cudaError_t copy_repeated(const void* from, std::int64_t from_bytes, void* to, std::int64_t bytes, const Blocks& blocks,
                          cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  const Repeated copy{static_cast<const char*>(from), from_bytes, static_cast<char*>(to), bytes};
  constexpr std::int64_t of_block = slice * (reserved_threads / warp_size);
  const std::int64_t useful = (bytes + of_block - 1) / of_block;
  const Blocks used{useful < blocks.ctas ? static_cast<int>(useful) : blocks.ctas, blocks.shared_bytes};
  return launch_owning(copy_repeated_kernel, copy, used, stream);
}

}  // namespace plumbline::real::cuda
