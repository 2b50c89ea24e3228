#include "real/cuda/kernels/arithmetic/rows.h"
#include "real/cuda/kernels/kernels.h"
#include "real/cuda/kernels/launch.cuh"
#include "real/cuda/kernels/row_teams.cuh"

namespace plumbline::real::cuda {
namespace {

// More and smaller blocks per SM hide each other's reductions. Gradients, whose blocks are persistent, need the
// registers.
constexpr int forward_threads = 512;

// A row in the registers of a team.
template <int kVectors>
struct Held {
  Vec8 vector[kVectors];
};

template <int kVectors, class View, class RowTeam>
__device__ Held<kVectors> hold(const View& x, std::int64_t row, const RowTeam& team) {
  Held<kVectors> held;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) held.vector[v] = load_vec8(x, row, team.column(v));
  return held;
}

// Calls body(v, i) for the elements that lie in the row.
template <int kVectors, class RowTeam, class Body>
__device__ void for_each(std::int64_t columns, const RowTeam& team, const Body& body) {
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
#pragma unroll
    for (int i = 0; i < tile_vector; ++i)
      if (team.column(v) + i < columns) body(v, i);
  }
}

// Sums over all held elements; those beyond the row are 0.
template <int kVectors, class Term>
__device__ float sum_of(const Held<kVectors>& x, const Term& term) {
  float sum = 0.0f;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
#pragma unroll
    for (int i = 0; i < tile_vector; ++i) sum += term(x.vector[v].v[i]);
  }
  return sum;
}

// Subtracts the mean if the norm is centered; returns 1 / deviation.
template <bool kCentered, int kVectors, class RowTeam>
__device__ float normalize(Held<kVectors>& x, std::int64_t columns, float epsilon, RowTeam& team) {
  if (kCentered) {
    const float mean = team.sum(sum_of(x, [](float value) { return value; })) / static_cast<float>(columns);
    for_each<kVectors>(columns, team, [&](int v, int i) { x.vector[v].v[i] -= mean; });
  }
  return rms_inverse(team.sum(sum_of(x, [](float value) { return value * value; })), columns, epsilon);
}

template <class View, bool kCentered, int kVectors, bool kWarp>
__global__ void __launch_bounds__(most_threads<kWarp>)
    norm_kernel(TensorView x_, TensorView gamma_, TensorView beta_, TensorView y_, float epsilon) {
  const View x(x_), gamma(gamma_), beta(beta_), y(y_);
  Team<kWarp> team;
  for (std::int64_t row = team.first(); row < x.rows; row += team.step()) {
    Held<kVectors> held = hold<kVectors>(x, row, team);
    const float scale = normalize<kCentered>(held, x.columns, epsilon, team);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const Vec8 factor = load_vec8(gamma, 0, team.column(v));
      Vec8 shift{};
      if (kCentered && beta.data != nullptr) shift = load_vec8(beta, 0, team.column(v));
#pragma unroll
      for (int i = 0; i < tile_vector; ++i)
        held.vector[v].v[i] = held.vector[v].v[i] * scale * factor.v[i] + shift.v[i];
      store_vec8(y, row, team.column(v), held.vector[v]);
    }
  }
}

// Adds the sums of the block's teams in order to `to`, a row of the partial sums.
template <int kVectors, bool kWarp>
__device__ void write_sums(const Held<kVectors>& sums, std::int64_t columns, const Team<kWarp>& team, float* to) {
  if constexpr (kWarp) {
    __shared__ float of_block[widest_row_of_warp];
    for (unsigned warp = 0; warp < blockDim.x / warp_size; ++warp) {
      if (threadIdx.x / warp_size == warp) {
        for_each<kVectors>(columns, team, [&](int v, int i) {
          float& sum = of_block[team.column(v) + i];
          sum = (warp > 0 ? sum : 0.0f) + sums.vector[v].v[i];
        });
      }
      __syncthreads();
    }
    for (std::int64_t c = threadIdx.x; c < columns; c += blockDim.x) to[c] = of_block[c];
    __syncthreads();
  } else {
    for_each<kVectors>(columns, team, [&](int v, int i) { to[team.column(v) + i] = sums.vector[v].v[i]; });
  }
}

// Each block walks over many rows and keeps the sums for dgamma and dbeta in registers.
template <class View, bool kCentered, int kVectors, bool kWarp>
__global__ void __launch_bounds__(most_threads<kWarp>)
    norm_grad_kernel(TensorView dy_, TensorView x_, TensorView gamma_, TensorView dx_, float epsilon, float* partial) {
  const View dy(dy_), x(x_), gamma(gamma_), dx(dx_);
  const std::int64_t columns = x.columns;
  Team<kWarp> team;
  Held<kVectors> d_gamma{}, d_beta{};
  for (std::int64_t row = team.first(); row < x.rows; row += team.step()) {
    Held<kVectors> d = hold<kVectors>(dy, row, team), held = hold<kVectors>(x, row, team);
    const float scale = normalize<kCentered>(held, columns, epsilon, team);
    float sum = 0.0f, along = 0.0f;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const Vec8 factor = load_vec8(gamma, 0, team.column(v));
#pragma unroll
      for (int i = 0; i < tile_vector; ++i) {
        float& value = d.vector[v].v[i];
        d_gamma.vector[v].v[i] += value * held.vector[v].v[i] * scale;
        if (kCentered) d_beta.vector[v].v[i] += value;
        value *= factor.v[i];
        sum += value;
        along += value * held.vector[v].v[i];
      }
    }
    const float mean_d = kCentered ? team.sum(sum) / static_cast<float>(columns) : 0.0f;
    along = team.sum(along) / static_cast<float>(columns) * scale * scale;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
#pragma unroll
      for (int i = 0; i < tile_vector; ++i) {
        float& value = d.vector[v].v[i];
        value = norm_input_gradient(value, held.vector[v].v[i], scale, mean_d, along);
      }
      store_vec8(dx, row, team.column(v), d.vector[v]);
    }
  }
  write_sums(d_gamma, columns, team, partial + blockIdx.x * columns);
  if (kCentered) write_sums(d_beta, columns, team, partial + (gridDim.x + blockIdx.x) * columns);
}

template <class View, bool kCentered>
cudaError_t launch_norm(const TensorView& x, const TensorView& gamma, const TensorView& beta, const TensorView& y,
                        float epsilon, cudaStream_t stream) {
  const RowShape shape = row_shape(x.columns, forward_threads);
  const auto blocks = static_cast<unsigned>(shape.blocks(x.rows));
  return launch_rows<View>(shape, [&](auto vectors, auto warp) {
    return launch(norm_kernel<View, kCentered, vectors(), warp()>, {blocks, shape.threads}, stream, x, as_row(gamma),
                  as_row(beta), y, epsilon);
  });
}

// The blocks that run at once with the registers to which norm_grad_kernel is limited.
std::int64_t grad_blocks(const TensorView& x, int sms) {
  const RowShape shape = row_shape(x.columns, most_threads<false>);
  const std::int64_t resident = static_cast<std::int64_t>(sms) * (most_threads<false> / shape.threads);
  const std::int64_t needed = shape.blocks(x.rows);
  return needed < resident ? needed : resident;
}

template <class View, bool kCentered>
cudaError_t launch_norm_grad(const TensorView& dy, const TensorView& x, const TensorView& gamma, const TensorView& dx,
                             float epsilon, float* partial, int sms, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(grad_blocks(x, sms));
  const RowShape shape = row_shape(x.columns, most_threads<false>);
  return launch_rows<View>(shape, [&](auto vectors, auto warp) {
    return launch(norm_grad_kernel<View, kCentered, vectors(), warp()>, {blocks, shape.threads}, stream, dy, x,
                  as_row(gamma), dx, epsilon, partial);
  });
}

}  // namespace

cudaError_t norm(const TensorView& x, const TensorView& gamma, const TensorView& beta, const TensorView& y,
                 const NormForm& form, cudaStream_t stream) {
  if (x.elements() == 0) return cudaSuccess;
  if (x.columns > widest_row) return cudaErrorInvalidValue;
  const bool bf16 = all_bf16(x, as_row(gamma), as_row(beta), y);
  const auto launch = form.centered ? (bf16 ? launch_norm<Bf16View, true> : launch_norm<TensorView, true>)
                                    : (bf16 ? launch_norm<Bf16View, false> : launch_norm<TensorView, false>);
  return launch(x, gamma, beta, y, form.epsilon, stream);
}

cudaError_t norm_grad(const TensorView& dy, const TensorView& x, const TensorView& gamma, const TensorView& dx,
                      const TensorView& dgamma, const TensorView& dbeta, const NormForm& form, float* scratch, int sms,
                      cudaStream_t stream) {
  if (x.elements() == 0) return cudaSuccess;
  if (x.columns > widest_row) return cudaErrorInvalidValue;
  const bool bf16 = all_bf16(dy, x, as_row(gamma), dx);
  const auto launch = form.centered ? (bf16 ? launch_norm_grad<Bf16View, true> : launch_norm_grad<TensorView, true>)
                                    : (bf16 ? launch_norm_grad<Bf16View, false> : launch_norm_grad<TensorView, false>);
  if (const cudaError_t error = launch(dy, x, gamma, dx, form.epsilon, scratch, sms, stream); error != cudaSuccess)
    return error;
  const std::int64_t blocks = grad_blocks(x, sms);
  if (const cudaError_t error = add_partial_sums(scratch, blocks, x.columns, dgamma, stream); error != cudaSuccess)
    return error;
  if (!form.centered || dbeta.data == nullptr) return cudaSuccess;
  return add_partial_sums(scratch + blocks * x.columns, blocks, x.columns, dbeta, stream);
}

std::int64_t norm_grad_scratch(const TensorView& x, const NormForm& form, int sms) {
  const std::int64_t floats = grad_blocks(x, sms) * x.columns * (form.centered ? 2 : 1);
  return floats * static_cast<std::int64_t>(sizeof(float));
}

}  // namespace plumbline::real::cuda
