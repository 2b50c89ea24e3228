// Common parts of the kernels that move tokens: persistent CTAs that reserve their SM, warps that take rows in turns,
// and the rate of what leaves the node.
#pragma once

#include "real/cuda/kernels/all_to_all/all_to_all.h"
#include "real/cuda/kernels/clock.cuh"
#include "real/cuda/kernels/launch.cuh"
#include "real/cuda/kernels/threads.cuh"

namespace plumbline::real::cuda {

constexpr int reserved_threads = 512;

// The warps of all blocks, numbered so that adjacent warps take adjacent rows.
struct Warp {
  std::int64_t number, count;
  int lane;
};

__device__ inline Warp this_warp() {
  const auto warps = static_cast<std::int64_t>(blockDim.x) / warp_size;
  return {static_cast<std::int64_t>(blockIdx.x) * warps + threadIdx.x / warp_size, gridDim.x * warps,
          static_cast<int>(threadIdx.x) % warp_size};
}

__device__ inline std::int64_t turns_of(std::int64_t rows, const Warp& warp) {
  return rows > warp.number ? (rows - warp.number + warp.count - 1) / warp.count : 0;
}

// Evenly mixes rows that stay and rows that leave; a row that leaves waits until it is due.
template <typename Stay, typename Leave>
__device__ void take_turns(std::int64_t rows, const SendBuffer& send_buffer, Stay stay, Leave leave) {
  const Warp warp = this_warp();
  const std::int64_t start = nanoseconds();
  const std::int64_t staying = turns_of(rows, warp), leaving = turns_of(send_buffer.rows, warp);
  std::int64_t left = 0;
  for (std::int64_t turn = 0; turn < staying || left < leaving; ++turn) {
    if (turn < staying) stay(warp.number + turn * warp.count, warp.lane);
    for (; leaves_now(turn, staying, left, leaving); ++left) {
      const std::int64_t index = warp.number + left * warp.count;
      const std::int64_t due = start + due_nanoseconds(index, send_buffer.picoseconds_per_row);
      while (nanoseconds() < due) rest(200);
      leave(index, warp.lane);
    }
  }
}

// The place in the list of a row that leaves, and its record in the sink.
__device__ inline std::int64_t listed(const SendBuffer& d, std::int64_t index) {
  return around_hole(index, d.hole, d.hole_rows);
}
__device__ inline std::int64_t record_of(const SendBuffer& d, std::int64_t index) {
  return sink_place(d.sink_first, index, d.sink_rows);
}

// Copies `bytes` (a multiple of 4) by a whole warp, with many loads in flight.
__device__ inline void copy_row(const char* from, char* to, std::int64_t bytes, int lane) {
  const auto aligned = [](const void* p) { return (reinterpret_cast<std::uintptr_t>(p) & 15u) == 0; };
  if (bytes % 16 != 0 || !aligned(from) || !aligned(to)) {
    for (std::int64_t i = lane; i < bytes / 4; i += warp_size)
      reinterpret_cast<std::uint32_t*>(to)[i] = reinterpret_cast<const std::uint32_t*>(from)[i];
    return;
  }
  constexpr int in_flight = 8;
  const std::int64_t vectors = bytes / 16;
  const auto* source = reinterpret_cast<const uint4*>(from);
  auto* target = reinterpret_cast<uint4*>(to);
  for (std::int64_t first = lane; first < vectors; first += warp_size * in_flight) {
    uint4 held[in_flight];
#pragma unroll
    for (int i = 0; i < in_flight; ++i)
      if (first + i * warp_size < vectors) held[i] = __ldcs(source + first + i * warp_size);
#pragma unroll
    for (int i = 0; i < in_flight; ++i)
      if (first + i * warp_size < vectors) __stcs(target + first + i * warp_size, held[i]);
  }
}

// Enqueues a kernel whose blocks use all shared memory of their SM.
template <typename Argument>
cudaError_t launch_owning(void (*kernel)(Argument), const Argument& argument, const Blocks& blocks,
                          cudaStream_t stream) {
  const cudaError_t error = allow_shared(kernel, blocks.shared_bytes);
  if (error != cudaSuccess) return error;
  const Grid grid{static_cast<unsigned>(blocks.ctas > 0 ? blocks.ctas : 1), reserved_threads,
                  static_cast<std::size_t>(blocks.shared_bytes)};
  return launch(kernel, grid, stream, argument);
}

}  // namespace plumbline::real::cuda
