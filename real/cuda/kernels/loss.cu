#include "real/cuda/kernels/kernels.h"
#include "real/cuda/kernels/launch.cuh"
#include "real/cuda/kernels/threads.cuh"
#include "real/cuda/kernels/vec8.cuh"

namespace plumbline::real::cuda {
namespace {

constexpr int row_threads = 512;
constexpr int row_columns = row_threads * tile_vector;
constexpr int sum_threads = 1024;

// Combines the values of a block in a fixed order; every thread gets the result. Add is called as add(into, other).
template <class Value, class Add>
__device__ Value combine_block(Value value, const Add& add) {
  alignas(16) __shared__ unsigned char memory[sum_threads * sizeof(Value)];  // constructors cannot run there
  auto* const partial = reinterpret_cast<Value*>(memory);
  const int thread = static_cast<int>(threadIdx.x);
  partial[thread] = value;
  for (int half = static_cast<int>(blockDim.x) / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) add(partial[thread], partial[thread + half]);
  }
  __syncthreads();
  return partial[0];
}

// Calls body(column) for a thread's columns of a row, by whole half warps, also beyond the last column.
template <class Body>
__device__ void for_columns(std::int64_t columns, const Body& body) {
  const std::int64_t covered = tiles_of(columns) * scale_tile;
  for (std::int64_t column = threadIdx.x * tile_vector; column < covered; column += row_columns) body(column);
}

// Columns beyond the row get the lowest number, whose exponential is 0.
template <class View>
__device__ Vec8 load_logits(const View& logits, std::int64_t row, std::int64_t column) {
  Vec8 values = load_vec8(logits, row, column);
#pragma unroll
  for (int i = 0; i < tile_vector; ++i)
    if (column + i >= logits.columns) values.v[i] = -FLT_MAX;
  return values;
}

__device__ float label_logit(const TensorView& logits, const Labels& labels, std::int64_t row) {
  const std::int64_t column = labels.carry_loss(row) ? labels.column(row, logits.columns) : -1;
  return column >= 0 ? load_one(logits, row, column) : 0.0f;
}

template <class View>
__global__ void token_losses_kernel(TensorView any_logits, Labels labels, float* log_sum_exp, float* losses,
                                    TensorView logarithms) {
  const View logits(any_logits);
  const std::int64_t row = blockIdx.x;
  LogSum sum;
  for_columns(logits.columns, [&](std::int64_t column) { sum.add(load_logits(logits, row, column).v); });
  sum = combine_block(sum, [](LogSum& into, const LogSum& other) { into.add(other); });
  const float logarithm = sum.value();
  if (threadIdx.x == 0) {
    log_sum_exp[row] = logarithm;
    losses[row] = labels.carry_loss(row) ? logarithm - label_logit(logits, labels, row) : 0.0f;
  }
  if (logarithms.data == nullptr) return;
  __syncthreads();  // logarithms may lie over the logits, of which the first thread has read the label's
  for_columns(logits.columns, [&](std::int64_t column) {
    Vec8 values = load_vec8(logits, row, column);
#pragma unroll
    for (int i = 0; i < tile_vector; ++i) values.v[i] -= logarithm;
    store_vec8(logarithms, row, column, values);
  });
}

template <class View>
__global__ void loss_figures_kernel(TensorView any_logits, Labels labels, float* figures) {
  const View logits(any_logits);
  const std::int64_t row = blockIdx.x;
  float sum = 0.0f;
  for_columns(logits.columns, [&](std::int64_t column) {
    const Vec8 values = load_logits(logits, row, column);
#pragma unroll
    for (int i = 0; i < tile_vector; ++i) sum += expf(values.v[i]);
  });
  sum = combine_block(sum, [](float& into, float other) { into += other; });
  if (threadIdx.x != 0) return;
  const bool has_label = labels.carry_loss(row) && labels.column(row, logits.columns) >= 0;
  figures[row * 3] = sum;
  figures[row * 3 + 1] = label_logit(logits, labels, row);
  figures[row * 3 + 2] = has_label ? 1.0f : 0.0f;
}

__device__ std::int64_t labeled(const Labels& labels, std::int64_t tokens) {
  int count = 0;
  for (std::int64_t token = threadIdx.x; token < tokens; token += sum_threads)
    count += labels.carry_loss(token) ? 1 : 0;
  return combine_block(count, [](int& into, int other) { into += other; });
}

__global__ void mean_loss_kernel(const float* losses, Labels labels, std::int64_t tokens, double weight, float* loss) {
  double sum = 0.0;
  for (std::int64_t token = threadIdx.x; token < tokens; token += sum_threads) sum += losses[token];
  sum = combine_block(sum, [](double& into, double other) { into += other; });
  const std::int64_t count = labeled(labels, tokens);
  if (threadIdx.x == 0) loss[0] = static_cast<float>(weight * sum / static_cast<double>(count > 0 ? count : 1));
}

__global__ void count_kernel(Labels labels, std::int64_t tokens, std::int64_t* count) {
  const std::int64_t found = labeled(labels, tokens);
  if (threadIdx.x == 0) count[0] = found;
}

__device__ float log_sum_of(const LossGradient& gradient, std::int64_t row) {
  if (gradient.sums == nullptr) return 0.0f;
  const float sum = gradient.sums[row * gradient.stride];
  return gradient.are_logarithms ? sum : logf(sum);
}

template <class View>
__global__ void loss_gradient_kernel(TensorView any_logits, Labels labels, LossGradient gradient,
                                     TensorView any_d_logits) {
  const View logits(any_logits), d_logits(any_d_logits);
  const std::int64_t row = blockIdx.x;
  const bool carries_loss = labels.carry_loss(row);
  const std::int64_t label = labels.column(row, logits.columns);
  const float log_sum = log_sum_of(gradient, row), scale = gradient_scale(gradient.weight, *gradient.count);
  for_columns(logits.columns, [&](std::int64_t column) {
    if (!carries_loss) return store_vec8(d_logits, row, column, Vec8{});
    Vec8 values = load_vec8(logits, row, column);
#pragma unroll
    for (int i = 0; i < tile_vector; ++i)
      values.v[i] = scale * expf(values.v[i] - log_sum) - (column + i == label ? scale : 0.0f);
    store_vec8(d_logits, row, column, values);
  });
}

// Calls with(view type), with the format of both views as a compile-time constant if possible.
template <class View>
struct Known {
  using type = View;
};
template <class With>
cudaError_t with_view(const TensorView& x, const TensorView& y, const With& with) {
  if (x.rows == 0) return cudaSuccess;
  if (is_aligned(x, Format::bf16) && is_aligned(y, Format::bf16)) return with(Known<Aligned<Format::bf16>>());
  if (is_aligned(x, Format::fp32) && is_aligned(y, Format::fp32)) return with(Known<Aligned<Format::fp32>>());
  return with(Known<TensorView>());
}

}  // namespace

cudaError_t token_losses(const TensorView& logits, const Labels& labels, float* log_sum_exp, float* losses,
                         const TensorView& logarithms, cudaStream_t stream) {
  return with_view(logits, logits, [&](auto view) {
    return launch(token_losses_kernel<typename decltype(view)::type>, {static_cast<unsigned>(logits.rows), row_threads},
                  stream, logits, labels, log_sum_exp, losses, logarithms);
  });
}

cudaError_t loss_figures(const TensorView& logits, const Labels& labels, float* figures, cudaStream_t stream) {
  return with_view(logits, logits, [&](auto view) {
    return launch(loss_figures_kernel<typename decltype(view)::type>, {static_cast<unsigned>(logits.rows), row_threads},
                  stream, logits, labels, figures);
  });
}

cudaError_t mean_loss(const float* losses, const Labels& labels, std::int64_t tokens, double weight, float* loss,
                      cudaStream_t stream) {
  return launch(mean_loss_kernel, {1, sum_threads}, stream, losses, labels, tokens, weight, loss);
}

cudaError_t count_labeled(const Labels& labels, std::int64_t tokens, std::int64_t* count, cudaStream_t stream) {
  return launch(count_kernel, {1, sum_threads}, stream, labels, tokens, count);
}

cudaError_t loss_gradient(const TensorView& logits, const Labels& labels, const LossGradient& gradient,
                          const TensorView& d_logits, cudaStream_t stream) {
  return with_view(logits, d_logits, [&](auto view) {
    return launch(loss_gradient_kernel<typename decltype(view)::type>,
                  {static_cast<unsigned>(logits.rows), row_threads}, stream, logits, labels, gradient, d_logits);
  });
}

}  // namespace plumbline::real::cuda
