#include "real/cuda/kernels/attention/attention.cuh"
#include "real/cuda/kernels/attention/attention_launch.cuh"
#include "real/cuda/kernels/launch.cuh"

namespace plumbline::real::cuda {
namespace {

// Computes do . o of every query and head, one per warp.
__global__ void inner_kernel(const AttentionTask task) {
  const std::int64_t at = (static_cast<std::int64_t>(blockIdx.x) * attention_threads + threadIdx.x) / warp_size;
  if (at >= task.sequences * task.length * task.query_heads) return;
  const std::int64_t row = at / task.query_heads, column = at % task.query_heads * task.value_dim;
  float sum = 0.0f;
  for (std::int64_t c = threadIdx.x % warp_size; c < task.value_dim; c += warp_size)
    sum += load_one(task.d_o, row, column + c) * load_one(task.o, row, column + c);
  sum = warp_sum(sum);
  if (threadIdx.x % warp_size == 0) task.inner[at] = sum;
}

template <int side>
struct Operands {
  SharedTile<side> q, k, d_o, v;
};

// Computes the probabilities and the gradients of scores of a tile from its operands.
template <int side>
__device__ void score_gradients(const AttentionTask& task, const Operands<side>& x, std::int64_t head,
                                std::int64_t from, std::int64_t query, std::int64_t key, const SharedTile<side>& p,
                                const SharedTile<side>& ds) {
  const Scores score(task, head);
  for_elements<side>(side, [&](int i, int j) {
    const std::int64_t t = query + i, s = key + j;
    p.row(i)[j] = ds.row(i)[j] = 0.0f;
    if (!score.visible(t, s)) return;
    const std::int64_t at = (from + t) * task.query_heads + head;
    const float probability = expf(score(dot(x.q, i, x.k, j), t, s) - task.log_sum_exp[at]);
    p.row(i)[j] = probability;
    ds.row(i)[j] = score_gradient(probability, dot(x.d_o, i, x.v, j), task.inner[at], score.scale);
  });
}

// One block per key tile of a key-value head of a sequence sums over all query heads that read it.
template <int side>
__global__ void keys_kernel(const AttentionTask task) {
  auto* const memory = dynamic_shared<float>();
  const std::int64_t tiles = (task.length + side - 1) / side;
  const std::int64_t key_tile = blockIdx.x % tiles, shared_head = blockIdx.x / tiles % task.key_value_heads;
  const std::int64_t from = blockIdx.x / tiles / task.key_value_heads * task.length, key = key_tile * side;
  const std::int64_t group = task.query_heads / task.key_value_heads;
  const int wide = static_cast<int>(task.query_key_dim), value_wide = static_cast<int>(task.value_dim);
  const SharedTile<side> q{memory, wide}, k{q.end(), wide}, d_o{k.end(), value_wide}, v{d_o.end(), value_wide};
  const SharedTile<side> dk{v.end(), wide}, dv{dk.end(), value_wide}, p{dv.end(), side}, ds{p.end(), side};
  const Operands<side> loaded{q, k, d_o, v};
  load(k, task.k, from, key, task.length, shared_head * wide);
  load(v, task.v, from, key, task.length, shared_head * value_wide);
  clear(dk);
  clear(dv);
  for (std::int64_t head = shared_head * group; head < (shared_head + 1) * group; ++head) {
    for (std::int64_t tile = key_tile; tile <= last_query_tile<side>(task, key_tile); ++tile) {
      load(q, task.q, from, tile * side, task.length, head * wide);
      load(d_o, task.d_o, from, tile * side, task.length, head * value_wide);
      __syncthreads();
      score_gradients(task, loaded, head, from, tile * side, key, p, ds);
      __syncthreads();
      add_transposed(dv, p, d_o);
      add_transposed(dk, ds, q);
      __syncthreads();
    }
  }
  store(dk, task.dk, from, key, task.length, shared_head * wide);
  store(dv, task.dv, from, key, task.length, shared_head * value_wide);
}

// One block per query tile of a query head of a sequence.
template <int side>
__global__ void queries_kernel(const AttentionTask task) {
  auto* const memory = dynamic_shared<float>();
  const std::int64_t tiles = (task.length + side - 1) / side;
  const std::int64_t query_tile = blockIdx.x % tiles, head = blockIdx.x / tiles % task.query_heads;
  const std::int64_t from = blockIdx.x / tiles / task.query_heads * task.length, query = query_tile * side;
  const std::int64_t shared_head = head / (task.query_heads / task.key_value_heads);
  const int wide = static_cast<int>(task.query_key_dim), value_wide = static_cast<int>(task.value_dim);
  const SharedTile<side> q{memory, wide}, k{q.end(), wide}, d_o{k.end(), value_wide}, v{d_o.end(), value_wide};
  const SharedTile<side> dq{v.end(), wide}, p{dq.end(), side}, ds{p.end(), side};
  const Operands<side> loaded{q, k, d_o, v};
  load(q, task.q, from, query, task.length, head * wide);
  load(d_o, task.d_o, from, query, task.length, head * value_wide);
  clear(dq);
  for (std::int64_t tile = first_key_tile<side>(task, query_tile); tile <= query_tile; ++tile) {
    load(k, task.k, from, tile * side, task.length, shared_head * wide);
    load(v, task.v, from, tile * side, task.length, shared_head * value_wide);
    __syncthreads();
    score_gradients(task, loaded, head, from, query, tile * side, p, ds);
    __syncthreads();
    add_gemm(dq, ds, k);
    __syncthreads();
  }
  store(dq, task.dq, from, query, task.length, head * wide);
}

// The bytes of this many tiles as wide as keys and as values.
template <int side>
std::size_t shared_bytes(const AttentionTask& task, std::size_t keys, std::size_t values) {
  return sizeof(float) * (keys * shared_floats<side>(task.query_key_dim) +
                          values * shared_floats<side>(task.value_dim) + 2 * shared_floats<side>(side));
}

std::int64_t tiles_of_sequences(const AttentionTask& task, std::int64_t side) {
  return task.sequences * ((task.length + side - 1) / side);
}

}  // namespace

cudaError_t attention_backward(const AttentionTask& task, cudaStream_t stream) {
  constexpr std::int64_t inners_per_block = attention_threads / warp_size;
  const std::int64_t inners = task.sequences * task.length * task.query_heads;
  if (inners == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>((inners + inners_per_block - 1) / inners_per_block);
  cudaError_t error = launch(inner_kernel, {blocks, attention_threads}, stream, task);
  const auto go_on = [&](auto* large, auto* small, std::int64_t heads, std::size_t keys, std::size_t values) {
    if (error != cudaSuccess) return;
    error =
        launch_tiled({large, tiles_of_sequences(task, 32) * heads, shared_bytes<32>(task, keys, values)},
                     {small, tiles_of_sequences(task, 16) * heads, shared_bytes<16>(task, keys, values)}, task, stream);
  };
  go_on(keys_kernel<32>, keys_kernel<16>, task.key_value_heads, 3, 3);
  go_on(queries_kernel<32>, queries_kernel<16>, task.query_heads, 3, 2);
  return error;
}

}  // namespace plumbline::real::cuda
