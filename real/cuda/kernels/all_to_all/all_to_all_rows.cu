// Copies of token rows to their receivers, and of those for other nodes to host memory.
#include "real/cuda/kernels/all_to_all/all_to_all.h"
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

__global__ void peer_barrier_kernel(PeerBarrier barrier) {
  const auto peer = static_cast<std::int32_t>(threadIdx.x);
  volatile std::uint32_t* to_peer = barrier.turns[peer] + barrier.own;
  const volatile std::uint32_t* from_peer = barrier.turns[barrier.own] + peer;
  const volatile std::int32_t* ended = barrier.ended;
  __threadfence_system();
  *to_peer = barrier.turn;
  // A peer may already be a turn ahead; turns wrap around after the largest number.
  while (static_cast<std::int32_t>(*from_peer - barrier.turn) < 0 && *ended == 0) rest(100);
  __threadfence_system();
}

constexpr int most_pieces = 64;  // of a launch: its arguments stay below the limit of every device

struct Pieces {
  std::int32_t count = 0;
  std::int32_t first_slice[most_pieces + 1] = {};
  Piece pieces[most_pieces];
};

__global__ void __launch_bounds__(reserved_threads) copy_pieces_kernel(Pieces copy) {
  const Warp warp = this_warp();
  for (std::int64_t at = warp.number; at < copy.first_slice[copy.count]; at += warp.count) {
    const std::int32_t number = bucket_of_row(copy.first_slice, copy.count, at);
    const Piece& piece = copy.pieces[number];
    const std::int64_t begin = (at - copy.first_slice[number]) * slice, rest = piece.bytes - begin;
    copy_row(static_cast<const char*>(piece.from) + begin, static_cast<char*>(piece.to) + begin,
             rest < slice ? rest : slice, warp.lane);
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

cudaError_t peer_barrier(const PeerBarrier& barrier, cudaStream_t stream) {
  if (barrier.peers > largest_node) return cudaErrorInvalidValue;
  return launch(peer_barrier_kernel, {1, barrier.peers}, stream, barrier);
}

cudaError_t copy_pieces(const Piece* pieces, std::int64_t count, const Blocks& blocks, cudaStream_t stream) {
  for (std::int64_t at = 0; at < count;) {
    Pieces copy;
    for (; at < count && copy.count < most_pieces; ++at) {
      if (pieces[at].bytes == 0) continue;
      copy.pieces[copy.count] = pieces[at];
      const auto slices = static_cast<std::int32_t>((pieces[at].bytes + slice - 1) / slice);
      copy.first_slice[copy.count + 1] = copy.first_slice[copy.count] + slices;
      ++copy.count;
    }
    if (copy.count == 0) continue;
    const cudaError_t error = launch_owning(copy_pieces_kernel, copy, blocks, stream);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace plumbline::real::cuda
