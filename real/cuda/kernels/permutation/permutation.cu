#include "real/cuda/kernels/launch.cuh"
#include "real/cuda/kernels/permutation/permutation.h"
#include "real/cuda/kernels/threads.cuh"

namespace plumbline::real::cuda {
namespace {

constexpr int block_warps = 4;
constexpr int block_threads = block_warps * warp_size;
constexpr unsigned all_lanes = 0xffffffffu;
static_assert(most_chunks == 1024, "one block scans the chunks of an expert, a thread each");

__device__ int lane_index() { return static_cast<int>(threadIdx.x) % warp_size; }
__device__ int warp_index() { return static_cast<int>(threadIdx.x) / warp_size; }
__device__ std::int64_t chunk_index() { return static_cast<std::int64_t>(blockIdx.x) * block_warps + warp_index(); }

// Returns the sum over this and all lower lanes.
__device__ int scan_warp(int value) {
#pragma unroll
  for (int offset = 1; offset < warp_size; offset *= 2) {
    const int before = __shfl_up_sync(all_lanes, value, offset);
    if (lane_index() >= offset) value += before;
  }
  return value;
}

// Calls body(entry, expert) for the entries of a chunk in order, 32 at a time, by all lanes; -1: none.
template <class Body>
__device__ void for_chunk(const RowOrder& order, std::int64_t chunk, const Body& body) {
  const std::int64_t entries = order.tokens * order.slots, length = chunk_entries(entries);
  for (std::int64_t first = chunk * length; first < (chunk + 1) * length && first < entries; first += warp_size) {
    const std::int64_t entry = first + lane_index();
    body(entry, entry < entries ? order.indices[entry] : -1);
  }
}

__global__ void count_kernel(RowOrder order, std::int64_t chunks) {
  int* const own = dynamic_shared<int>() + warp_index() * order.experts;
  for (int expert = lane_index(); expert < order.experts; expert += warp_size) own[expert] = 0;
  __syncwarp();
  const std::int64_t chunk = chunk_index();
  if (chunk >= chunks) return;
  for_chunk(order, chunk, [&](std::int64_t, int expert) {
    if (expert >= 0) atomicAdd(&own[expert], 1);
  });
  __syncwarp();
  for (int expert = lane_index(); expert < order.experts; expert += warp_size)
    order.counts[expert * chunks + chunk] = own[expert];
}

// Turns counts into sums over the chunks before, with one block per expert.
__global__ void scan_kernel(RowOrder order, std::int64_t chunks) {
  __shared__ int of_warps[warp_size];
  std::int32_t* const counts = order.counts + blockIdx.x * chunks;
  const int chunk = static_cast<int>(threadIdx.x);
  const int count = chunk < chunks ? counts[chunk] : 0;
  const int within = scan_warp(count);
  if (lane_index() == warp_size - 1) of_warps[warp_index()] = within;
  __syncthreads();
  if (warp_index() == 0) of_warps[lane_index()] = scan_warp(of_warps[lane_index()]);
  __syncthreads();
  const int before = warp_index() > 0 ? of_warps[warp_index() - 1] : 0;
  if (chunk < chunks) counts[chunk] = before + within - count;
  if (chunk == 0) order.totals[blockIdx.x] = of_warps[warp_size - 1];
}

// Computes the first row of each expert, and at [experts] the number of rows; only the first warp works.
__device__ void find_starts(const RowOrder& order, int* starts) {
  const int width = (order.experts + warp_size - 1) / warp_size;
  const int from = lane_index() * width, to = min(from + width, order.experts);
  int own = 0;
  for (int expert = from; expert < to; ++expert)
    own += static_cast<int>(aligned_rows(order.totals[expert], order.alignment));
  int next = scan_warp(own) - own;
  for (int expert = from; expert < to; ++expert) {
    starts[expert] = next;
    next += static_cast<int>(aligned_rows(order.totals[expert], order.alignment));
  }
  if (lane_index() == warp_size - 1) starts[order.experts] = next;
}

__device__ void place(const RowOrder& order, const PlacedRows& placed, std::int64_t entry, std::int32_t row) {
  placed.positions[entry] = row;
  if (row < 0) return;
  if (placed.map != nullptr) placed.map[row] = static_cast<std::int32_t>(entry / order.slots);
  if (placed.row_weights != nullptr) placed.row_weights[row] = placed.weights[entry];
}

__global__ void place_kernel(RowOrder order, PlacedRows placed, std::int64_t chunks) {
  auto* const memory = dynamic_shared<int>();
  int* const starts = memory;
  int* const next = memory + order.experts + 1 + warp_index() * order.experts;
  if (warp_index() == 0) find_starts(order, starts);
  __syncthreads();
  if (blockIdx.x == 0 && placed.offsets != nullptr)
    for (int i = static_cast<int>(threadIdx.x); i <= order.experts; i += block_threads) placed.offsets[i] = starts[i];
  const std::int64_t chunk = chunk_index();
  if (chunk >= chunks) return;
  for (int expert = lane_index(); expert < order.experts; expert += warp_size)
    next[expert] = starts[expert] + order.counts[expert * chunks + chunk];
  __syncwarp();
  for_chunk(order, chunk, [&](std::int64_t entry, int expert) {
    const unsigned same = __match_any_sync(all_lanes, expert);
    const int rank = rank_among(same, lane_index());
    const int row = expert >= 0 ? next[expert] + rank : -1;
    __syncwarp();
    if (expert >= 0 && rank == 0) next[expert] += bits_set(same);
    __syncwarp();
    if (entry < order.entries()) place(order, placed, entry, row);
  });
}

unsigned chunk_blocks(std::int64_t chunks) { return static_cast<unsigned>((chunks + block_warps - 1) / block_warps); }

cudaError_t fill_up(const PlacedRows& placed, cudaStream_t stream) {
  const auto rows = static_cast<std::size_t>(placed.rows);
  cudaError_t error = cudaSuccess;
  if (placed.map != nullptr) error = cudaMemsetAsync(placed.map, 0xff, rows * sizeof(std::int32_t), stream);
  if (error == cudaSuccess && placed.row_weights != nullptr)
    error = cudaMemsetAsync(placed.row_weights, 0, rows * sizeof(float), stream);
  return error;
}

}  // namespace

std::int64_t row_order_bytes(std::int64_t entries, std::int64_t experts) {
  return (chunk_count(entries) + 1) * experts * static_cast<std::int64_t>(sizeof(std::int32_t));
}

cudaError_t count_rows(const RowOrder& order, cudaStream_t stream) {
  if (order.experts > most_local_experts) return cudaErrorInvalidValue;
  const std::int64_t chunks = chunk_count(order.entries());
  const auto shared = static_cast<std::size_t>(block_warps * order.experts) * sizeof(int);
  cudaError_t error = cudaSuccess;
  if (chunks > 0) error = launch(count_kernel, {chunk_blocks(chunks), block_threads, shared}, stream, order, chunks);
  if (error != cudaSuccess) return error;
  return launch(scan_kernel, {static_cast<unsigned>(order.experts), most_chunks}, stream, order, chunks);
}

cudaError_t place_rows(const RowOrder& order, const PlacedRows& placed, cudaStream_t stream) {
  const std::int64_t chunks = chunk_count(order.entries());
  if (placed.rows > 0)
    if (const cudaError_t error = fill_up(placed, stream); error != cudaSuccess) return error;
  const auto shared = static_cast<std::size_t>((block_warps + 1) * order.experts + 1) * sizeof(int);
  const unsigned blocks = chunks > 0 ? chunk_blocks(chunks) : 1;  // without rows, offsets are still written
  return launch(place_kernel, {blocks, block_threads, shared}, stream, order, placed, chunks);
}

}  // namespace plumbline::real::cuda
