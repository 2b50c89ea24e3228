#include <cmath>

#include "real/cuda/kernels/arithmetic/rows.h"
#include "real/cuda/kernels/elementwise.cuh"
#include "real/cuda/kernels/kernels.h"
#include "real/cuda/kernels/launch.cuh"

namespace plumbline::real::cuda {
namespace {

constexpr std::int64_t most_pairs = 512;

// Rotates columns. The cosine and sine of each pair's angle are in shared memory.
struct Turner {
  std::int64_t kept, half;  // columns of a head that are not rotated; pairs
  float direction;
  const Rotation* rotations;

  // Returns the number of columns from this one on, within its head, that are treated alike; partner() is the distance
  // to their partners.
  __device__ std::int64_t alike(std::int64_t within) const {
    if (within < kept) return kept - within;
    return within < kept + half ? kept + half - within : kept + 2 * half - within;
  }
  __device__ std::int64_t partner(std::int64_t within) const {
    if (within < kept) return 0;
    return within < kept + half ? half : -half;
  }
  __device__ float rotated(std::int64_t within, float value, float partner_value) const {
    if (within < kept) return value;
    const bool first = within < kept + half;
    const Rotation r = rotations[within - kept - (first ? 0 : half)];
    const float sine = first ? -direction * r.sine : direction * r.sine;
    return value * r.cosine + partner_value * sine;
  }
};

template <class View>
__device__ Vec8 turn(const View& x, const Turner& turner, std::int64_t head_dim, std::int64_t row,
                     std::int64_t column) {
  Vec8 values = load_vec8(x, row, column);
  const auto head = static_cast<std::uint32_t>(column) / static_cast<std::uint32_t>(head_dim);
  const std::int64_t within = column - head * head_dim;
  if (turner.alike(within) >= tile_vector) {
    if (within < turner.kept) return values;
    const Vec8 partners = load_vec8(x, row, column + turner.partner(within));
#pragma unroll
    for (int i = 0; i < tile_vector; ++i) values.v[i] = turner.rotated(within + i, values.v[i], partners.v[i]);
    return values;
  }
  for (int i = 0; i < tile_vector; ++i) {
    if (column + i >= x.columns) continue;
    const std::int64_t place = (within + i) % head_dim;
    values.v[i] = turner.rotated(place, values.v[i], load_one(x, row, column + i + turner.partner(place)));
  }
  return values;
}

// Each block rotates a row at a time; all heads of a row have the same angles.
template <class View>
__global__ void rotary_kernel(TensorView x_, TensorView y_, RotaryForm form, double log2_theta) {
  __shared__ Rotation rotations[most_pairs];
  const View x(x_), y(y_);
  const std::int64_t half = form.rope_dim / 2;
  const Turner turner{form.head_dim - form.rope_dim, half, form.direction, rotations};
  for (std::int64_t row = blockIdx.x; row < x.rows; row += gridDim.x) {
    const std::int64_t earlier = form.lengths == nullptr ? 0 : form.lengths[row / form.sequence_length];
    for (std::int64_t i = threadIdx.x; i < half; i += blockDim.x)
      rotations[i] = rotation(earlier + row % form.sequence_length, i, form.rope_dim, log2_theta);
    __syncthreads();
    for (std::int64_t column = threadIdx.x * tile_vector; column / scale_tile * scale_tile < x.columns;
         column += blockDim.x * tile_vector) {
      const Vec8 values = column < x.columns ? turn(x, turner, form.head_dim, row, column) : Vec8{};
      store_vec8(y, row, column, values);
    }
    __syncthreads();
  }
}

// Returns the threads for one vector each of a row, up to a limit.
unsigned threads_for(std::int64_t columns) {
  constexpr std::int64_t most = 256;
  const std::int64_t wanted = (columns + tile_vector - 1) / tile_vector;
  const std::int64_t whole_warps = (wanted + warp_size - 1) / warp_size * warp_size;
  return static_cast<unsigned>(whole_warps < most ? whole_warps : most);
}

}  // namespace

cudaError_t rotary(const TensorView& x, const TensorView& y, const RotaryForm& form, cudaStream_t stream) {
  if (x.elements() == 0) return cudaSuccess;
  if (form.rope_dim / 2 > most_pairs || x.columns != form.heads * form.head_dim) return cudaErrorInvalidValue;
  const auto blocks = static_cast<unsigned>(x.rows);
  const bool whole = form.head_dim % tile_vector == 0 && form.rope_dim / 2 % tile_vector == 0;
  const auto kernel = whole && all_bf16(x, y) ? rotary_kernel<Bf16View> : rotary_kernel<TensorView>;
  return launch(kernel, {blocks, threads_for(x.columns)}, stream, x, y, form, std::log2(form.theta));
}

}  // namespace plumbline::real::cuda
