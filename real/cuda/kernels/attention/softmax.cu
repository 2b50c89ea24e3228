#include "real/cuda/kernels/arithmetic/attention.h"
#include "real/cuda/kernels/arithmetic/rows.h"
#include "real/cuda/kernels/attention/attention.h"
#include "real/cuda/kernels/launch.cuh"
#include "real/cuda/kernels/row_teams.cuh"

namespace plumbline::real::cuda {
namespace {

// Returns score i of a vector with its bias, or -infinity if the key is not seen.
struct Scores {
  KeyRange seen;
  float slope;  // of ALiBi; 0 without it
  __device__ float operator()(const Vec8& stored, std::int64_t column, int i) const {
    const std::int64_t key = column + i;
    if (key < seen.begin || key >= seen.end) return -INFINITY;
    return stored.v[i] - slope * static_cast<float>(seen.end - 1 - key);
  }
};

// Each row has the scores of a query of one head.
template <class View, int kVectors, bool kWarp>
__global__ void __launch_bounds__(most_threads<kWarp>)
    softmax_kernel(TensorView scores_, TensorView probabilities_, SoftmaxForm form) {
  const View scores(scores_), probabilities(probabilities_);
  Team<kWarp> team;
  for (std::int64_t row = team.first(); row < scores.rows; row += team.step()) {
    const std::int64_t head = row % form.heads, place = row / form.heads % form.sequence_length;
    const Scores score{seen_keys(place, form.window), form.alibi ? alibi_slope(head, form.heads) : 0.0f};
    Vec8 held[kVectors];
    float largest = -INFINITY;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const std::int64_t column = team.column(v);
      held[v] = Vec8{};
      if (column < score.seen.end) held[v] = load_vec8(scores, row, column);
#pragma unroll
      for (int i = 0; i < tile_vector; ++i) {
        held[v].v[i] = score(held[v], column, i);
        largest = fmaxf(largest, held[v].v[i]);
      }
    }
    largest = team.largest(largest);
    float sum = 0.0f;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
#pragma unroll
      for (int i = 0; i < tile_vector; ++i) sum += held[v].v[i] = expf(held[v].v[i] - largest);
    }
    const float reciprocal = 1.0f / team.sum(sum);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) store_vec8(probabilities, row, team.column(v), scaled(held[v], reciprocal));
  }
}

template <class View, int kVectors, bool kWarp>
__global__ void __launch_bounds__(most_threads<kWarp>)
    softmax_grad_kernel(TensorView d_, TensorView p_, TensorView d_scores_) {
  const View d_probabilities(d_), probabilities(p_), d_scores(d_scores_);
  Team<kWarp> team;
  for (std::int64_t row = team.first(); row < probabilities.rows; row += team.step()) {
    Vec8 d[kVectors], p[kVectors];
    float inner = 0.0f;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      d[v] = load_vec8(d_probabilities, row, team.column(v));
      p[v] = load_vec8(probabilities, row, team.column(v));
#pragma unroll
      for (int i = 0; i < tile_vector; ++i) inner += d[v].v[i] * p[v].v[i];
    }
    inner = team.sum(inner);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
#pragma unroll
      for (int i = 0; i < tile_vector; ++i) d[v].v[i] = p[v].v[i] * (d[v].v[i] - inner);
      store_vec8(d_scores, row, team.column(v), d[v]);
    }
  }
}

// A view with a row for every query and head.
TensorView by_head(TensorView x, const SoftmaxForm& form) {
  x.rows *= form.heads;
  x.columns /= form.heads;
  return x;
}

constexpr int threads_of_one_vector = 512;

template <class View>
cudaError_t launch_softmax(const TensorView& scores, const TensorView& probabilities, const SoftmaxForm& form,
                           cudaStream_t stream) {
  const RowShape shape = row_shape(scores.columns, threads_of_one_vector);
  const auto blocks = static_cast<unsigned>(shape.blocks(scores.rows));
  return launch_rows<View>(shape, [&](auto vectors, auto warp) {
    return launch(softmax_kernel<View, vectors(), warp()>, {blocks, shape.threads}, stream, scores, probabilities,
                  form);
  });
}

template <class View>
cudaError_t launch_grad(const TensorView& d, const TensorView& p, const TensorView& d_scores, cudaStream_t stream) {
  const RowShape shape = row_shape(p.columns, threads_of_one_vector);
  const auto blocks = static_cast<unsigned>(shape.blocks(p.rows));
  return launch_rows<View>(shape, [&](auto vectors, auto warp) {
    return launch(softmax_grad_kernel<View, vectors(), warp()>, {blocks, shape.threads}, stream, d, p, d_scores);
  });
}

bool is_possible(const TensorView& p, const SoftmaxForm& form) {
  return p.scales == nullptr && p.columns / form.heads <= widest_row;
}

}  // namespace

cudaError_t softmax(const TensorView& scores, const TensorView& probabilities, const SoftmaxForm& form,
                    cudaStream_t stream) {
  if (scores.elements() == 0) return cudaSuccess;
  if (!is_possible(probabilities, form)) return cudaErrorInvalidValue;
  const TensorView from = by_head(scores, form), to = by_head(probabilities, form);
  return all_bf16(from, to) ? launch_softmax<Bf16View>(from, to, form, stream)
                            : launch_softmax<TensorView>(from, to, form, stream);
}

cudaError_t softmax_grad(const TensorView& d_probabilities, const TensorView& probabilities, const TensorView& d_scores,
                         const SoftmaxForm& form, cudaStream_t stream) {
  if (probabilities.elements() == 0) return cudaSuccess;
  if (!is_possible(probabilities, form)) return cudaErrorInvalidValue;
  const TensorView d = by_head(d_probabilities, form), p = by_head(probabilities, form), to = by_head(d_scores, form);
  return all_bf16(d, p, to) ? launch_grad<Bf16View>(d, p, to, stream) : launch_grad<TensorView>(d, p, to, stream);
}

}  // namespace plumbline::real::cuda
