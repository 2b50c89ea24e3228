// Access to the memory of other GPUs of the node.
#include "real/cuda/kernels/all_to_all/all_to_all_peers.h"
#include "real/cuda/kernels/all_to_all/reserved_sm.cuh"

namespace plumbline::real::cuda {
namespace {

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

constexpr int most_pieces = 64;       // of a launch: its arguments stay below the limit of every device
constexpr std::int64_t slice = 8192;  // bytes that a warp takes at a time

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
