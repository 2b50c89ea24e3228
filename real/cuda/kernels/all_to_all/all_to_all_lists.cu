// Lists of sends: each bucket has a block that reads all tokens in order, so that no atomics decide the order.
#include "real/cuda/kernels/all_to_all/all_to_all.h"
#include "real/cuda/kernels/launch.cuh"
#include "real/cuda/kernels/threads.cuh"

namespace plumbline::real::cuda {
namespace {

constexpr int list_threads = 512;
constexpr int list_warps = list_threads / warp_size;
constexpr int block_threads = 256;

__device__ Visit visit_of(const RouteTask& task, std::int64_t token, std::int32_t bucket) {
  if (token >= task.tokens) return {};
  return visit(task.buckets, task.indices + token * task.choices, task.choices, bucket);
}

__global__ void __launch_bounds__(list_threads) count_sends_kernel(RouteTask task, std::int32_t* counts) {
  const auto bucket = static_cast<std::int32_t>(blockIdx.x);
  std::int32_t count = 0;
  for (std::int64_t first = 0; first < task.tokens; first += list_threads)
    count += __syncthreads_count(visit_of(task, first + threadIdx.x, bucket).goes ? 1 : 0);
  if (threadIdx.x == 0) counts[bucket] = count;
}

__global__ void count_choices_kernel(RouteTask task, std::int32_t* counts) {
  const std::int64_t entries = task.tokens * task.choices;
  const ExpertHomes homes = task.buckets.homes;
  for (std::int64_t i = thread_index(); i < entries; i += thread_count()) {
    const std::int32_t expert = task.indices[i];
    atomicAdd(counts + (exists(homes, expert) ? expert : homes.experts), 1);
  }
}

// Returns how many lower threads of the block have `yes`; `total` becomes the number of all that have it.
__device__ std::int32_t place_in_block(bool yes, std::int32_t* of_warps, std::int32_t& total) {
  const unsigned ballot = __ballot_sync(0xffffffffu, yes);
  const int lane = static_cast<int>(threadIdx.x) % warp_size, warp = static_cast<int>(threadIdx.x) / warp_size;
  __syncthreads();  // of_warps was read in the iteration before
  if (lane == 0) of_warps[warp] = __popc(ballot);
  __syncthreads();
  std::int32_t before = 0;
  total = 0;
  for (int w = 0; w < list_warps; ++w) {
    before += w < warp ? of_warps[w] : 0;
    total += of_warps[w];
  }
  return before + __popc(ballot & ((1u << lane) - 1u));
}

__global__ void __launch_bounds__(list_threads)
    list_sends_kernel(RouteTask task, const std::int32_t* counts, SendList list) {
  __shared__ std::int32_t of_warps[list_warps];
  const auto bucket = static_cast<std::int32_t>(blockIdx.x);
  std::int32_t at = 0;
  for (std::int32_t b = 0; b < bucket; ++b) at += counts[b];
  if (threadIdx.x == 0) {
    list.first[bucket] = at;
    if (blockIdx.x + 1 == gridDim.x) list.first[bucket + 1] = at + counts[bucket];
  }
  for (std::int64_t first = 0; first < task.tokens; first += list_threads) {
    const std::int64_t token = first + threadIdx.x;
    const Visit visit = visit_of(task, token, bucket);
    std::int32_t found = 0;
    const std::int32_t place = at + place_in_block(visit.goes, of_warps, found);
    if (visit.goes) {
      list.tokens[place] = static_cast<std::int32_t>(token);
      list.slots[token * task.choices + visit.before] = place;
    }
    at += found;
  }
}

__global__ void number_sends_kernel(RouteTask task, SendList list, std::int64_t entries, std::int32_t* received) {
  for (std::int64_t i = thread_index(); i < entries; i += thread_count()) {
    const std::int64_t send = i / task.choices, choice = i % task.choices;
    const std::int32_t member = bucket_of_row(list.first, task.buckets.homes.members, send);
    const std::int32_t expert = task.indices[static_cast<std::int64_t>(list.tokens[send]) * task.choices + choice];
    received[i] = local_number(task.buckets.homes, expert, member);
  }
}

__global__ void number_received_kernel(ExpertHomes homes, std::int32_t* indices, std::int64_t count) {
  for (std::int64_t i = thread_index(); i < count; i += thread_count())
    indices[i] = local_number(homes, indices[i], homes.position);
}

unsigned bucket_blocks(const RouteTask& task) { return static_cast<unsigned>(bucket_count(task.buckets)); }

}  // namespace

cudaError_t count_sends(const RouteTask& task, std::int32_t* counts, cudaStream_t stream) {
  return launch(count_sends_kernel, {bucket_blocks(task), list_threads}, stream, task, counts);
}

cudaError_t count_choices(const RouteTask& task, std::int32_t* counts, cudaStream_t stream) {
  constexpr std::int64_t most_blocks = 64;  // more blocks gain nothing: the additions go to one cache
  const unsigned blocks = grid_for(task.tokens * task.choices, block_threads, most_blocks);
  return launch(count_choices_kernel, {blocks, block_threads}, stream, task, counts);
}

cudaError_t list_sends(const RouteTask& task, const std::int32_t* counts, const SendList& list, cudaStream_t stream) {
  const std::int64_t slot_bytes = task.tokens * task.choices * static_cast<std::int64_t>(sizeof(std::int32_t));
  // Sets all bits: -1, no send.
  const cudaError_t error = cudaMemsetAsync(list.slots, 0xff, static_cast<std::size_t>(slot_bytes), stream);
  if (error != cudaSuccess) return error;
  return launch(list_sends_kernel, {bucket_blocks(task), list_threads}, stream, task, counts, list);
}

cudaError_t number_locally(const RouteTask& task, const SendList& list, std::int64_t sends, std::int32_t* received,
                           cudaStream_t stream) {
  const std::int64_t entries = sends * task.choices;
  if (entries == 0) return cudaSuccess;
  return launch(number_sends_kernel, {grid_for(entries, block_threads), block_threads}, stream, task, list, entries,
                received);
}

cudaError_t number_locally(const ExpertHomes& homes, std::int32_t* indices, std::int64_t count, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  return launch(number_received_kernel, {grid_for(count, block_threads), block_threads}, stream, homes, indices, count);
}

}  // namespace plumbline::real::cuda
