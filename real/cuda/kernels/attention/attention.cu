#include "real/cuda/kernels/arithmetic/attention.h"
#include "real/cuda/kernels/attention/attention.h"
#include "real/cuda/kernels/element.h"
#include "real/cuda/kernels/launch.cuh"
#include "real/cuda/kernels/threads.cuh"

namespace plumbline::real::cuda {
namespace {

// --- Tiles in shared memory ---

constexpr int attention_threads = 256;

// A tile of `side` rows; one extra float per row puts rows on different banks.
template <int side>
struct SharedTile {
  float* data;
  int columns;

  __device__ float* row(int i) const { return data + i * (columns + 1); }
  __device__ float* end() const { return data + side * (columns + 1); }
};
template <int side>
constexpr std::size_t shared_floats(std::int64_t columns) {
  return static_cast<std::size_t>(side) * static_cast<std::size_t>(columns + 1);
}

// Calls body(row, column) for all elements of a tile, divided among the block's threads; adjacent threads take adjacent
// columns.
template <int side, typename Body>
__device__ void for_elements(int columns, const Body& body) {
  for (int at = static_cast<int>(threadIdx.x); at < side * columns; at += attention_threads)
    body(at / columns, at % columns);
}

// Loads rows first .. first + side - 1 of a sequence that begins at row `from`; 0 beyond its end.
template <int side>
__device__ void load(const SharedTile<side>& to, const TensorView& x, std::int64_t from, std::int64_t first,
                     std::int64_t length, std::int64_t column) {
  for_elements<side>(to.columns, [&](int i, int c) {
    to.row(i)[c] = first + i < length ? load_one(x, from + first + i, column + c) : 0.0f;
  });
}

template <int side>
__device__ void store(const SharedTile<side>& tile, const TensorView& y, std::int64_t from, std::int64_t first,
                      std::int64_t length, std::int64_t column) {
  for_elements<side>(tile.columns, [&](int i, int c) {
    if (first + i < length) store_one(y, from + first + i, column + c, tile.row(i)[c]);
  });
}

template <int side>
__device__ void clear(const SharedTile<side>& tile) {
  for_elements<side>(tile.columns, [&](int i, int c) { tile.row(i)[c] = 0.0f; });
}

template <int side>
__device__ float dot(const SharedTile<side>& x, int i, const SharedTile<side>& y, int j) {
  float sum = 0.0f;
  for (int c = 0; c < x.columns; ++c) sum += x.row(i)[c] * y.row(j)[c];
  return sum;
}

// Adds p x or p^T x to `to`.
template <int side>
__device__ void add_gemm(const SharedTile<side>& to, const SharedTile<side>& p, const SharedTile<side>& x) {
  for_elements<side>(to.columns, [&](int i, int c) {
    float sum = to.row(i)[c];
    for (int j = 0; j < side; ++j) sum += p.row(i)[j] * x.row(j)[c];
    to.row(i)[c] = sum;
  });
}
template <int side>
__device__ void add_transposed(const SharedTile<side>& to, const SharedTile<side>& p, const SharedTile<side>& x) {
  for_elements<side>(to.columns, [&](int j, int c) {
    float sum = to.row(j)[c];
    for (int i = 0; i < side; ++i) sum += p.row(i)[j] * x.row(i)[c];
    to.row(j)[c] = sum;
  });
}

// Computes the score of query t and key s, scaled and biased, from their dot product.
struct Scores {
  const AttentionTask& task;
  float scale, slope;

  __device__ Scores(const AttentionTask& t, std::int64_t head)
      : task(t),
        scale(1.0f / sqrtf(static_cast<float>(t.query_key_dim))),
        slope(t.alibi ? alibi_slope(head, t.query_heads) : 0.0f) {}
  __device__ bool visible(std::int64_t t, std::int64_t s) const { return t < task.length && sees(t, s, task.window); }
  __device__ float operator()(float dot, std::int64_t t, std::int64_t s) const {
    return scale * dot - slope * static_cast<float>(t - s);
  }
};

// The first tile of keys that a tile of queries sees, and the last tile of queries that sees a tile of keys.
template <int side>
__device__ std::int64_t first_key_tile(const AttentionTask& task, std::int64_t query_tile) {
  const std::int64_t first = task.window > 0 ? query_tile * side - task.window + 1 : 0;
  return first > 0 ? first / side : 0;
}
template <int side>
__device__ std::int64_t last_query_tile(const AttentionTask& task, std::int64_t key_tile) {
  const std::int64_t last = (task.length + side - 1) / side - 1;
  if (task.window == 0) return last;
  const std::int64_t seen = (key_tile * side + side - 1 + task.window - 1) / side;
  return seen < last ? seen : last;
}

// --- Launches, with the largest tiles that fit in the shared memory of the device ---

// Shared memory per block left for what the attention kernels declare statically.
constexpr std::size_t declared_bytes = 1024;

// The tiles of a block that are as wide as keys, as values, and as a tile is high.
struct Tiles {
  std::size_t keys = 0, values = 0, squares = 0;

  template <int side>
  std::size_t bytes(const AttentionTask& task) const {
    return sizeof(float) * (keys * shared_floats<side>(task.query_key_dim) +
                            values * shared_floats<side>(task.value_dim) + squares * shared_floats<side>(side));
  }
};

using AttentionKernel = void (*)(AttentionTask);

// Launches the kernel with tiles of 32 rows if they fit, else that of 16: a block per tile of each of `heads`.
cudaError_t launch_tiled(AttentionKernel large, AttentionKernel small, std::int64_t heads, const Tiles& tiles,
                         const AttentionTask& task, cudaStream_t stream) {
  int device = 0, most = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (error != cudaSuccess) return error;
  const auto fits = [&](std::size_t bytes) { return bytes + declared_bytes <= static_cast<std::size_t>(most); };
  const bool wide = fits(tiles.bytes<32>(task));
  const std::size_t bytes = wide ? tiles.bytes<32>(task) : tiles.bytes<16>(task);
  if (!fits(bytes)) return cudaErrorInvalidValue;
  const std::int64_t side = wide ? 32 : 16, blocks = task.sequences * ((task.length + side - 1) / side) * heads;
  if (blocks == 0) return cudaSuccess;
  const AttentionKernel kernel = wide ? large : small;
  error = allow_shared(kernel, static_cast<int>(bytes));
  if (error != cudaSuccess) return error;
  return launch(kernel, {static_cast<unsigned>(blocks), attention_threads, bytes}, stream, task);
}

// --- Forward ---

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

// --- Backward ---

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

}  // namespace

cudaError_t attention_forward(const AttentionTask& task, cudaStream_t stream) {
  return launch_tiled(forward_kernel<32>, forward_kernel<16>, task.query_heads, {2, 2, 1}, task, stream);
}

cudaError_t attention_backward(const AttentionTask& task, cudaStream_t stream) {
  constexpr std::int64_t inners_per_block = attention_threads / warp_size;
  const std::int64_t inners = task.sequences * task.length * task.query_heads;
  if (inners == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>((inners + inners_per_block - 1) / inners_per_block);
  cudaError_t error = launch(inner_kernel, {blocks, attention_threads}, stream, task);
  if (error == cudaSuccess)
    error = launch_tiled(keys_kernel<32>, keys_kernel<16>, task.key_value_heads, {3, 3, 2}, task, stream);
  if (error == cudaSuccess)
    error = launch_tiled(queries_kernel<32>, queries_kernel<16>, task.query_heads, {3, 2, 2}, task, stream);
  return error;
}

}  // namespace plumbline::real::cuda
