#include <cfloat>

#include "real/cuda/kernels/element.h"
#include "real/cuda/kernels/inference/inference.h"
#include "real/cuda/kernels/launch.cuh"
#include "real/cuda/kernels/threads.cuh"

namespace plumbline::real::cuda {
namespace {

constexpr int block_threads = 128;
constexpr int block_warps = block_threads / warp_size;

__global__ void append_kernel(NewTokens tokens, TensorView rows, TensorView cache, std::int64_t first_column) {
  const std::int64_t held = cache.rows / tokens.requests;
  for (std::int64_t i = thread_index(); i < rows.elements(); i += thread_count()) {
    const std::int64_t row = i / rows.columns, column = i % rows.columns, request = row / tokens.fresh;
    const std::int64_t place = request * held + tokens.lengths[request] + row % tokens.fresh;
    store_one(cache, place, first_column + column, load_one(rows, row, column));
  }
}

__global__ void last_kernel(TensorView x, std::int64_t fresh, TensorView y) {
  for (std::int64_t i = thread_index(); i < y.elements(); i += thread_count()) {
    const std::int64_t row = i / y.columns, column = i % y.columns;
    store_one(y, row, column, load_one(x, (row + 1) * fresh - 1, column));
  }
}

__global__ void head_kernel(TensorView x, TensorView w, TensorView y, std::int64_t heads, std::int64_t copied) {
  const std::int64_t in = x.columns / heads, out = y.columns / heads, height = out - copied, depth = in - copied;
  for (std::int64_t i = thread_index(); i < y.elements(); i += thread_count()) {
    const std::int64_t row = i / y.columns, head = i % y.columns / out, within = i % out;
    float sum = 0.0f;
    if (within >= height) {
      sum = load_one(x, row, head * in + depth + within - height);
    } else {
      for (std::int64_t j = 0; j < depth; ++j)
        sum += load_one(x, row, head * in + j) * load_one(w, head * height + within, j);
    }
    store_one(y, row, i % y.columns, sum);
  }
}

// A part of the softmax over a query's keys: each lane holds the values' columns lane, lane + 32, ...
template <int kHeld>
struct Sum {
  float largest = -FLT_MAX, total = 0.0f, values[kHeld] = {};

  // Scales the sums down where a score is larger than all before; returns its weight.
  __device__ float weigh(float score) {
    const float most = fmaxf(largest, score), kept = expf(largest - most);
    for (int i = 0; i < kHeld; ++i) values[i] *= kept;
    total *= kept;
    largest = most;
    return expf(score - most);
  }
};

// Each block attends with one head of one query; its warps take keys in turns and are joined in shared memory.
template <int kHeld>
__global__ void attend_kernel(CachedAttentionTask task) {
  __shared__ float largest[block_warps], total[block_warps], values[block_warps][kHeld * warp_size];
  const int warp = static_cast<int>(threadIdx.x) / warp_size, lane = static_cast<int>(threadIdx.x) % warp_size;
  const std::int64_t row = blockIdx.x, head = blockIdx.y, request = row / task.tokens.fresh;
  const std::int64_t position = task.tokens.lengths[request] + row % task.tokens.fresh;
  const std::int64_t low = task.window > 0 && position >= task.window ? position - task.window + 1 : 0;
  const std::int64_t held = task.keys.rows / task.tokens.requests;
  const std::int64_t shared = head / (task.query_heads / task.key_value_heads);
  const float slope = exp2f(-8.0f * static_cast<float>(head + 1) / static_cast<float>(task.query_heads));
  Sum<kHeld> sum;
  for (std::int64_t key = low + warp; key <= position; key += block_warps) {
    float score = 0.0f;
    for (std::int64_t i = lane; i < task.query_key_dim; i += warp_size)
      score += load_one(task.q, row, head * task.query_key_dim + i) *
               load_one(task.keys, request * held + key, shared * task.query_key_dim + i);
    score = task.scale * warp_sum(score);
    if (task.alibi) score -= slope * static_cast<float>(position - key);
    const float weight = sum.weigh(score);
    sum.total += weight;
    for (int i = 0; i < kHeld; ++i) {
      const std::int64_t column = i * warp_size + lane;
      if (column < task.value_dim)
        sum.values[i] += weight * load_one(task.values, request * held + key, shared * task.value_dim + column);
    }
  }
  if (lane == 0) {
    largest[warp] = sum.largest;
    total[warp] = sum.total;
  }
  for (int i = 0; i < kHeld; ++i) values[warp][i * warp_size + lane] = sum.values[i];
  __syncthreads();
  float most = -FLT_MAX, all = 0.0f;
  for (int other = 0; other < block_warps; ++other) most = fmaxf(most, largest[other]);
  for (int other = 0; other < block_warps; ++other) all += total[other] * expf(largest[other] - most);
  for (std::int64_t column = threadIdx.x; column < task.value_dim; column += block_threads) {
    float value = 0.0f;
    for (int other = 0; other < block_warps; ++other) value += values[other][column] * expf(largest[other] - most);
    store_one(task.o, row, head * task.value_dim + column, value / all);
  }
}

__device__ float gumbel(std::uint64_t seed, std::uint64_t index) {
  const float uniform = (static_cast<float>(random_bits(seed, index) >> 40) + 0.5f) * (1.0f / 16777216.0f);
  return -logf(-logf(uniform));
}

// Of equal scores the first column wins.
struct Best {
  float score = -FLT_MAX;
  std::int32_t column = 0x7fffffff;

  __device__ void take(float other, std::int32_t place) {
    if (other < score || (other == score && place >= column)) return;
    score = other;
    column = place;
  }
};

// Each block chooses one token.
__global__ void sample_kernel(TensorView logits, SampleRule rule, std::int32_t* ids, std::int64_t tokens) {
  __shared__ float scores[block_warps];
  __shared__ std::int32_t columns[block_warps];
  const std::int64_t token = blockIdx.x, vocabulary = logits.elements() / tokens;
  const std::uint64_t seed = random_bits(rule.seed, static_cast<std::uint64_t>(rule.first_request + token));
  Best best;
  for (std::int64_t column = threadIdx.x; column < vocabulary; column += block_threads) {
    float score = load_one(logits, column / logits.columns * tokens + token, column % logits.columns);
    if (rule.temperature > 0.0f) score = score / rule.temperature + gumbel(seed, static_cast<std::uint64_t>(column));
    best.take(score, static_cast<std::int32_t>(column));
  }
  for (int offset = warp_size / 2; offset > 0; offset /= 2) {
    const float score = __shfl_xor_sync(0xffffffffu, best.score, offset);
    best.take(score, __shfl_xor_sync(0xffffffffu, best.column, offset));
  }
  if (threadIdx.x % warp_size == 0) {
    scores[threadIdx.x / warp_size] = best.score;
    columns[threadIdx.x / warp_size] = best.column;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int warp = 1; warp < block_warps; ++warp) best.take(scores[warp], columns[warp]);
  ids[token] = best.column;
}

}  // namespace

cudaError_t append_rows(const NewTokens& tokens, const TensorView& rows, const TensorView& cache,
                        std::int64_t first_column, cudaStream_t stream) {
  return launch(append_kernel, {grid_for(rows.elements(), block_threads), block_threads}, stream, tokens, rows, cache,
                first_column);
}

cudaError_t cached_attention(const CachedAttentionTask& task, cudaStream_t stream) {
  if (task.value_dim > widest_cached_value) return cudaErrorInvalidValue;
  const dim3 blocks(static_cast<unsigned>(task.q.rows), static_cast<unsigned>(task.query_heads));
  constexpr int narrow = 8, wide = widest_cached_value / warp_size;
  const auto kernel = task.value_dim <= narrow * warp_size ? attend_kernel<narrow> : attend_kernel<wide>;
  return launch(kernel, {blocks, block_threads}, stream, task);
}

cudaError_t head_matmul(const TensorView& x, const TensorView& w, const TensorView& y, std::int64_t heads,
                        std::int64_t copied, cudaStream_t stream) {
  return launch(head_kernel, {grid_for(y.elements(), block_threads), block_threads}, stream, x, w, y, heads, copied);
}

cudaError_t last_rows(const TensorView& x, std::int64_t fresh, const TensorView& y, cudaStream_t stream) {
  return launch(last_kernel, {grid_for(y.elements(), block_threads), block_threads}, stream, x, fresh, y);
}

cudaError_t sample(const TensorView& logits, const SampleRule& rule, std::int32_t* ids, std::int64_t tokens,
                   cudaStream_t stream) {
  return launch(sample_kernel, {static_cast<unsigned>(tokens), block_threads}, stream, logits, rule, ids, tokens);
}

}  // namespace plumbline::real::cuda
