// Kernels that reach into memory of other GPUs of the node, over NVLink.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "real/cuda/kernels/all_to_all/all_to_all.h"

namespace plumbline::real::cuda {

constexpr int largest_node = 72;  // GPUs that NVLink joins: as in a GB200 NVL72 (its datasheet)

// A barrier of the ranks of a node: each tells every other one, in that one's memory, which turn it has come to, and
// goes on when all have told it.
struct PeerBarrier {
  std::int32_t peers = 1, own = 0;
  std::uint32_t turn = 0;                   // one more than at the meeting before
  std::uint32_t* turns[largest_node] = {};  // [peer] the turns that this peer was told, by teller
  const std::int32_t* ended = nullptr;      // host memory: nonzero where nobody is to be waited for any more
};
// What was enqueued before is seen by all peers that enqueue something after.
cudaError_t peer_barrier(const PeerBarrier& barrier, cudaStream_t stream);

// Bytes from one place to another, a multiple of 4; either may be another GPU's.
struct Piece {
  const void* from = nullptr;
  void* to = nullptr;
  std::int64_t bytes = 0;
};
cudaError_t copy_pieces(const Piece* pieces, std::int64_t count, const Blocks& blocks, cudaStream_t stream);

}  // namespace plumbline::real::cuda
