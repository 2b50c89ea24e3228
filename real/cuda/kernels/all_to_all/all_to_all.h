// Kernels that send tokens to their experts and sum what comes back, as functions that enqueue launches on a stream.
// Pointers are device memory unless noted; rows of data are 16-byte aligned.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "real/cuda/kernels/arithmetic/all_to_all.h"
#include "real/cuda/tensor_view.h"

namespace plumbline::real::cuda {

// --- Lists of sends: by bucket, then by token. They are deterministic. ---

struct RouteTask {
  const std::int32_t* indices = nullptr;  // [tokens, choices]: experts, numbered over all ranks
  std::int64_t tokens = 0;
  std::int32_t choices = 0;
  Buckets buckets;
};

// counts[bucket] = tokens that go to the bucket.
cudaError_t count_sends(const RouteTask& task, std::int32_t* counts, cudaStream_t stream);
// counts[expert] += choices of the expert; counts[experts] += choices of experts that do not exist.
cudaError_t count_choices(const RouteTask& task, std::int32_t* counts, cudaStream_t stream);

struct SendList {
  std::int32_t* first = nullptr;   // [buckets + 1] offset of each bucket
  std::int32_t* tokens = nullptr;  // [sends]
  std::int32_t* slots = nullptr;   // [tokens, choices] the sends of each token, ascending, then -1
};
cudaError_t list_sends(const RouteTask& task, const std::int32_t* counts, const SendList& list, cudaStream_t stream);

// Writes the token's experts for each send in the receiver's numbers: received[sends, choices]. The list is one of
// Leg::to_members.
cudaError_t number_locally(const RouteTask& task, const SendList& list, std::int64_t sends, std::int32_t* received,
                           cudaStream_t stream);
// Renumbers received indices in place, from numbers over all ranks to local ones.
cudaError_t number_locally(const ExpertHomes& homes, std::int32_t* indices, std::int64_t count, cudaStream_t stream);

// --- Movement of rows by persistent CTAs: one per SM, because each uses all of its shared memory ---

struct Blocks {
  int ctas = 1;
  int shared_bytes = 0;  // limit of shared memory per block (cudaDevAttrMaxSharedMemoryPerBlockOptin)
};

// One of the tensors that move together.
struct Plane {
  const void* from = nullptr;  // contiguous rows of `bytes`
  void* to = nullptr;
  std::int64_t bytes = 0;  // a multiple of 4
  std::int64_t to_stride = 0;
};
constexpr int largest_planes = 4;  // values, scales, indices, weights

// Rows that leave the node: each is written to a cyclic buffer in pinned host memory, at the rate of a network.
struct SendBuffer {
  const std::int32_t* first = nullptr;  // of a list of Leg::to_nodes
  const std::int32_t* tokens = nullptr;
  std::int32_t nodes = 0;
  std::int64_t rows = 0;  // without those of the own node, which are skipped:
  std::int64_t hole = 0, hole_rows = 0;
  std::int64_t sink_first = 0, sink_rows = 1;
  std::int64_t picoseconds_per_row = 0;  // 0: unlimited
  int planes_count = 0;
  Plane planes[largest_planes];  // `to`: the buffer's address plus the plane's offset in a record
};

struct RowCopy {
  const std::int32_t* source = nullptr;  // [rows]; nullptr: the same row
  std::int64_t rows = 0;
  int planes_count = 0;
  Plane planes[largest_planes];
  SendBuffer send_buffer;
};
cudaError_t copy_rows(const RowCopy& copy, const Blocks& blocks, cudaStream_t stream);

constexpr int largest_addends = 6;

// out[t] = sum of rows[slot] over the token's slots + addends, added in FP32 in that order and rounded once.
struct RowSum {
  TensorView rows, out;                 // fp32, bf16 or fp16; columns are a multiple of 8
  const std::int32_t* slots = nullptr;  // [tokens, choices]
  std::int32_t choices = 0;
  int addends_count = 0;
  TensorView addends[largest_addends];
  const float* small_rows = nullptr;  // [rows, choices], summed likewise; nullptr: none
  float* small_out = nullptr;
  // A node's partial sums for another node, over the slots that lie in it. member_first is of the list of
  // Leg::to_members.
  SendBuffer send_buffer;
  const std::int32_t* member_first = nullptr;
  std::int32_t node_members = 1;
};
cudaError_t sum_rows(const RowSum& sum, const Blocks& blocks, cudaStream_t stream);

// to[i] = from[i mod from_bytes]; sizes are multiples of 4.
cudaError_t copy_repeated(const void* from, std::int64_t from_bytes, void* to, std::int64_t bytes, const Blocks& blocks,
                          cudaStream_t stream);

// --- Kernels that access the memory of other GPUs of the node over NVLink ---

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
