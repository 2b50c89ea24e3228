#include "real/cuda/kernels/kernels.h"
#include "real/cuda/kernels/launch.cuh"
#include "real/cuda/kernels/threads.cuh"
#include "real/cuda/kernels/vec8.cuh"

namespace plumbline::real::cuda {
namespace {

constexpr int block_threads = 256;

// Vectors of eight that all operands can access at once come first. The rest comes after them: fewer than eight
// elements, or all if one operand is not aligned.
bool is_aligned_row(const TensorView& x) {
  return x.data == nullptr || reinterpret_cast<std::uintptr_t>(x.data) % vector_alignment(x.format) == 0;
}

struct Span {
  std::int64_t from = 0, to = 0;  // in vectors of eight
};

// Calls part(span, is_aligned) for both parts.
template <class Part>
cudaError_t in_two_parts(std::int64_t elements, bool aligned, const Part& part) {
  const std::int64_t whole = aligned ? elements / tile_vector : 0;
  cudaError_t error = cudaSuccess;
  if (whole > 0) error = part(Span{0, whole}, true);
  if (error != cudaSuccess || whole * tile_vector >= elements) return error;
  return part(Span{whole, (elements + tile_vector - 1) / tile_vector}, false);
}

template <class Body>
__device__ void for_vectors(const Span& span, const Body& body) {
  for (std::int64_t vector = span.from + thread_index(); vector < span.to; vector += thread_count())
    body(vector * tile_vector);
}

unsigned blocks_for(const Span& span) { return grid_for(span.to - span.from, block_threads); }

// --- Sums ---

__device__ double block_total(double value) {
  __shared__ double partial[block_threads];
  const int thread = static_cast<int>(threadIdx.x);
  partial[thread] = value;
  for (int half = block_threads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) partial[thread] += partial[thread + half];
  }
  return partial[0];  // only thread 0's value is the sum
}

// The squares of eight elements are added in FP32, everything else in double precision.
__global__ void squares_kernel(TensorView x, double weight, double* partial) {
  double sum = 0.0;
  for_vectors(Span{0, (x.columns + tile_vector - 1) / tile_vector}, [&](std::int64_t at) {
    const Vec8 values = load_vec8(x, 0, at);
    float of_eight = 0.0f;
#pragma unroll
    for (int i = 0; i < tile_vector; ++i) of_eight += values.v[i] * values.v[i];
    sum += of_eight;
  });
  sum = block_total(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = weight * sum;
}

__global__ void add_partial_kernel(const double* partial, std::int64_t count, float* total) {
  double sum = 0.0;
  for (std::int64_t i = threadIdx.x; i < count; i += block_threads) sum += partial[i];
  sum = block_total(sum);
  if (threadIdx.x == 0) total[0] = static_cast<float>(sum);
}

// --- Division by the loss scale ---

__global__ void divide_kernel(Span span, TensorView x, const float* divisor, TensorView y, float* found) {
  const float factor = 1.0f / divisor[0];
  for_vectors(span, [&](std::int64_t at) {
    Vec8 values = load_vec8(x, 0, at);
    bool is_finite = true;
#pragma unroll
    for (int i = 0; i < tile_vector; ++i) {
      is_finite = is_finite && isfinite(values.v[i]);
      values.v[i] *= factor;
    }
    if (!is_finite) found[0] = 1.0f;
    store_vec8(y, 0, at, values);
  });
}

// --- The update ---

template <class Gradient, class Moment, class Master, class Weight>
__global__ void update_kernel(Span span, UpdateRule rule, UpdateViews views, const float* sum_of_squares,
                              double largest_norm) {
  const Gradient gradients(views.gradient);
  const Moment firsts(views.first), seconds(views.second);
  const Master masters(views.master);
  const Weight weights(views.weight);
  const float clip = sum_of_squares != nullptr ? clip_factor(sum_of_squares[0], largest_norm) : 1.0f;
  for_vectors(span, [&](std::int64_t at) {
    const Vec8 gradient = load_vec8(gradients, 0, at);
    Vec8 first = load_vec8(firsts, 0, at), second = load_vec8(seconds, 0, at), master = load_vec8(masters, 0, at);
#pragma unroll
    for (int i = 0; i < tile_vector; ++i)
      master.v[i] = updated_weight(rule, clip * gradient.v[i], master.v[i], first.v[i], second.v[i]);
    store_vec8(firsts, 0, at, first);
    store_vec8(seconds, 0, at, second);
    store_vec8(masters, 0, at, master);
    if (weights.data != nullptr) store_vec8(weights, 0, at, master);
  });
}

using Update = void (*)(Span, UpdateRule, UpdateViews, const float*, double);

template <Format kGradient, Format kMoment>
Update update_of() {
  return update_kernel<Aligned<kGradient>, Aligned<kMoment>, Aligned<Format::fp32>, Aligned<Format::bf16>>;
}

// The formats of most trainings have their own kernels; all others share one.
Update update_for(const UpdateViews& v, bool aligned) {
  const bool is_usual = aligned && v.master.format == Format::fp32 && v.weight.format == Format::bf16 &&
                        v.first.format == v.second.format;
  const auto is = [&](Format gradient, Format moment) {
    return is_usual && v.gradient.format == gradient && v.first.format == moment;
  };
  if (is(Format::fp32, Format::bf16)) return update_of<Format::fp32, Format::bf16>();
  if (is(Format::fp32, Format::fp32)) return update_of<Format::fp32, Format::fp32>();
  if (is(Format::bf16, Format::bf16)) return update_of<Format::bf16, Format::bf16>();
  if (is(Format::bf16, Format::fp32)) return update_of<Format::bf16, Format::fp32>();
  return update_kernel<TensorView, TensorView, TensorView, TensorView>;
}

}  // namespace

cudaError_t squares(const TensorView& x, double weight, double* partial, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(sum_blocks(x.elements()));
  if (blocks == 0) return cudaSuccess;
  return launch(squares_kernel, {blocks, block_threads}, stream, as_row(x), weight, partial);
}

cudaError_t add_partial(const double* partial, std::int64_t count, float* total, cudaStream_t stream) {
  return launch(add_partial_kernel, {1, block_threads}, stream, partial, count, total);
}

cudaError_t divide(const TensorView& x, const float* divisor, const TensorView& y, float* found, cudaStream_t stream) {
  const Span all{0, (x.elements() + tile_vector - 1) / tile_vector};
  if (all.to == 0) return cudaSuccess;
  return launch(divide_kernel, {blocks_for(all), block_threads}, stream, all, as_row(x), divisor, as_row(y), found);
}

cudaError_t update(const UpdateRule& rule, const UpdateViews& views, const float* sum_of_squares, double largest_norm,
                   cudaStream_t stream) {
  UpdateViews rows;
  rows.gradient = as_row(views.gradient);
  rows.master = as_row(views.master);
  rows.first = as_row(views.first);
  rows.second = as_row(views.second);
  rows.weight = as_row(views.weight);
  bool aligned = true;
  for (const TensorView& row : {rows.gradient, rows.master, rows.first, rows.second, rows.weight})
    aligned = aligned && is_aligned_row(row);
  return in_two_parts(rows.master.columns, aligned, [&](const Span& span, bool whole) {
    return launch(update_for(rows, whole), {blocks_for(span), block_threads}, stream, span, rule, rows, sum_of_squares,
                  largest_norm);
  });
}

}  // namespace plumbline::real::cuda
