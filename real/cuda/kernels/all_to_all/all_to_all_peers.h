// Kernels that access the memory of other GPUs of the node over NVLink.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "real/cuda/kernels/all_to_all/all_to_all.h"

namespace plumbline::real::cuda {

constexpr int largest_node = 72;  // GPUs in an NVLink domain: a GB200 NVL72 (its datasheet)

// A barrier of the ranks of a node: each rank writes its turn into the memory of every other one, and waits until all
// have written theirs.
struct PeerBarrier {
  std::int32_t peers = 1, own = 0;
  std::uint32_t turn = 0;                   // one more than at the last barrier
  std::uint32_t* turns[largest_node] = {};  // [peer] the turns written to this peer, by writing rank
  const std::int32_t* ended = nullptr;      // host memory: nonzero if the barrier must not wait any more
};
// Work enqueued before is visible to all peers' work enqueued after.
cudaError_t peer_barrier(const PeerBarrier& barrier, cudaStream_t stream);

// A copy of `bytes`, a multiple of 4; either address may be on another GPU.
struct Piece {
  const void* from = nullptr;
  void* to = nullptr;
  std::int64_t bytes = 0;
};
cudaError_t copy_pieces(const Piece* pieces, std::int64_t count, const Blocks& blocks, cudaStream_t stream);

}  // namespace plumbline::real::cuda
