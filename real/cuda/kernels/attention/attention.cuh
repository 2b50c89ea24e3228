// Tiles of attention in shared memory, for its kernels.
#pragma once

#include "real/cuda/kernels/arithmetic/attention.h"
#include "real/cuda/kernels/attention/attention.h"
#include "real/cuda/kernels/element.h"
#include "real/cuda/kernels/threads.cuh"

namespace plumbline::real::cuda {

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

}  // namespace plumbline::real::cuda
