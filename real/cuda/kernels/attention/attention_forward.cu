#include "real/cuda/kernels/attention/attention.cuh"
#include "real/cuda/kernels/attention/attention_launch.cuh"

namespace plumbline::real::cuda {
namespace {

// Turns scores into exponentials relative to the largest so far, with a warp per query; `shrink` is the factor of
// earlier sums.
template <int side>
__device__ void exponentiate(const SharedTile<side>& scores, RunningSoftmax* softmax, float* shrink) {
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  for (int i = static_cast<int>(threadIdx.x) / warp_size; i < side; i += attention_threads / warp_size) {
    const float score = lane < side ? scores.row(i)[lane] : -INFINITY;
    const float largest = warp_max(score);
    RunningSoftmax next = softmax[i];
    const float merged = merged_largest(next, largest);
    const float p = score > -INFINITY ? expf(score - merged) : 0.0f;
    const float sum = warp_sum(p);
    if (lane < side) scores.row(i)[lane] = p;
    if (lane == 0) {
      shrink[i] = take_up(next, largest, sum);
      softmax[i] = next;
    }
  }
}

// One block per query tile of a query head of a sequence.
template <int side>
__global__ void forward_kernel(const AttentionTask task) {
  auto* const memory = dynamic_shared<float>();
  __shared__ RunningSoftmax softmax[side];
  __shared__ float shrink[side];
  const std::int64_t tiles = (task.length + side - 1) / side;
  const std::int64_t query_tile = blockIdx.x % tiles, head = blockIdx.x / tiles % task.query_heads;
  const std::int64_t from = blockIdx.x / tiles / task.query_heads * task.length, first = query_tile * side;
  const std::int64_t shared_head = head / (task.query_heads / task.key_value_heads);
  const int wide = static_cast<int>(task.query_key_dim), value_wide = static_cast<int>(task.value_dim);
  const SharedTile<side> q{memory, wide}, k{q.end(), wide}, v{k.end(), value_wide}, o{v.end(), value_wide};
  const SharedTile<side> p{o.end(), side};
  const Scores score(task, head);
  if (threadIdx.x < side) softmax[threadIdx.x] = {};
  load(q, task.q, from, first, task.length, head * wide);
  clear(o);
  for (std::int64_t key_tile = first_key_tile<side>(task, query_tile); key_tile <= query_tile; ++key_tile) {
    const std::int64_t key = key_tile * side;
    load(k, task.k, from, key, task.length, shared_head * wide);
    load(v, task.v, from, key, task.length, shared_head * value_wide);
    __syncthreads();
    for_elements<side>(side, [&](int i, int j) {
      p.row(i)[j] = score.visible(first + i, key + j) ? score(dot(q, i, k, j), first + i, key + j) : -INFINITY;
    });
    __syncthreads();
    exponentiate(p, softmax, shrink);
    __syncthreads();
    for_elements<side>(value_wide, [&](int i, int c) { o.row(i)[c] *= shrink[i]; });
    add_gemm(o, p, v);
    __syncthreads();
  }
  for_elements<side>(value_wide, [&](int i, int c) { o.row(i)[c] /= softmax[i].sum; });
  store(o, task.o, from, first, task.length, head * value_wide);
  if (threadIdx.x < side && first + threadIdx.x < task.length)
    task.log_sum_exp[(from + first + threadIdx.x) * task.query_heads + head] = log_sum_exp(softmax[threadIdx.x]);
}

template <int side>
std::size_t shared_bytes(const AttentionTask& task) {
  return sizeof(float) * (2 * shared_floats<side>(task.query_key_dim) + 2 * shared_floats<side>(task.value_dim) +
                          shared_floats<side>(side));
}

}  // namespace

cudaError_t attention_forward(const AttentionTask& task, cudaStream_t stream) {
  const auto blocks = [&](std::int64_t side) {
    return task.sequences * task.query_heads * ((task.length + side - 1) / side);
  };
  const TiledKernel large{forward_kernel<32>, blocks(32), shared_bytes<32>(task)};
  const TiledKernel small{forward_kernel<16>, blocks(16), shared_bytes<16>(task)};
  return launch_tiled(large, small, task, stream);
}

}  // namespace plumbline::real::cuda
