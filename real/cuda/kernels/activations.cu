#include "real/cuda/kernels/arithmetic/rows.h"
#include "real/cuda/kernels/elementwise.cuh"
#include "real/cuda/kernels/kernels.h"
#include "real/cuda/kernels/row_teams.cuh"

namespace plumbline::real::cuda {
namespace {

__device__ float row_weight(const TensorView& weights, std::int64_t row) {
  return weights.data != nullptr ? load_one(weights, 0, row) : 1.0f;
}

template <class View>
struct Swiglu {
  TensorView gate_up, weights, out;
  __device__ void operator()(std::int64_t row, std::int64_t column) const {
    Vec8 gate = load_vec8(View(gate_up), row, column);
    const Vec8 up = load_vec8(View(gate_up), row, out.columns + column);
    const float weight = row_weight(weights, row);
#pragma unroll
    for (int i = 0; i < tile_vector; ++i) gate.v[i] = weight * swiglu(gate.v[i], up.v[i]);
    store_vec8(View(out), row, column, gate);
  }
};

// Stores the part of a vector before column `end`; the row has other values from there on.
template <class View>
__device__ void store_before(const View& y, std::int64_t end, std::int64_t row, std::int64_t column,
                             const Vec8& values) {
  if (y.scales != nullptr || column + tile_vector <= end) return store_vec8(y, row, column, values);
#pragma unroll
  for (int i = 0; i < tile_vector; ++i)
    if (column + i < end) store_one(y, row, column + i, values.v[i]);
}

template <class View>
struct SwigluGrad {
  TensorView d_hidden, gate_up, weights, d_gate_up, d_weights;
  __device__ float vector(std::int64_t row, std::int64_t column) const {
    const std::int64_t width = d_hidden.columns;
    const Vec8 d = load_vec8(View(d_hidden), row, column);
    Vec8 gate = load_vec8(View(gate_up), row, column), up = load_vec8(View(gate_up), row, width + column);
    const float weight = row_weight(weights, row);
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < tile_vector; ++i) {
      const SwigluGradient gradient = swiglu_gradient(d.v[i], gate.v[i], up.v[i]);
      if (column + i < width) sum += gradient.weight;
      gate.v[i] = weight * gradient.gate;
      up.v[i] = weight * gradient.up;
    }
    store_before(View(d_gate_up), width, row, column, gate);
    store_before(View(d_gate_up), 2 * width, row, column < width ? width + column : 2 * width, up);
    return sum;
  }
  __device__ void finish(std::int64_t row, float sum) const {
    if (d_weights.data != nullptr) store_one(d_weights, 0, row, sum);
  }
};

template <class View>
struct Gelu {
  TensorView x, y;
  __device__ void operator()(std::int64_t row, std::int64_t column) const {
    Vec8 values = load_vec8(View(x), row, column);
#pragma unroll
    for (int i = 0; i < tile_vector; ++i) values.v[i] = gelu(values.v[i]);
    store_vec8(View(y), row, column, values);
  }
};

template <class View>
struct GeluGrad {
  TensorView dy, x, dx;
  __device__ void operator()(std::int64_t row, std::int64_t column) const {
    Vec8 values = load_vec8(View(x), row, column);
    const Vec8 d = load_vec8(View(dy), row, column);
#pragma unroll
    for (int i = 0; i < tile_vector; ++i) values.v[i] = gelu_gradient(d.v[i], values.v[i]);
    store_vec8(View(dx), row, column, values);
  }
};

// Returns whether the second half of a row begins at a vector, so that Aligned may be used.
bool halves_are_aligned(const TensorView& half) { return half.columns % tile_vector == 0; }

}  // namespace

cudaError_t swiglu(const TensorView& gate_up, const TensorView& weights, const TensorView& out, cudaStream_t stream) {
  const TensorView w = as_row(weights);
  if (all_bf16(gate_up, out) && halves_are_aligned(out))
    return launch_tiles(out, Swiglu<Bf16View>{gate_up, w, out}, stream);
  return launch_tiles(out, Swiglu<TensorView>{gate_up, w, out}, stream);
}

cudaError_t swiglu_grad(const TensorView& d_hidden, const TensorView& gate_up, const TensorView& weights,
                        const TensorView& d_gate_up, const TensorView& d_weights, cudaStream_t stream) {
  if (d_gate_up.scales != nullptr && d_hidden.columns % scale_tile != 0) return cudaErrorInvalidValue;
  const TensorView w = as_row(weights), dw = as_row(d_weights);
  const auto launch = [&](auto body) { return launch_row_sums(d_hidden.rows, d_hidden.columns, body, stream); };
  if (all_bf16(d_hidden, gate_up, d_gate_up) && halves_are_aligned(d_hidden))
    return launch(SwigluGrad<Bf16View>{d_hidden, gate_up, w, d_gate_up, dw});
  return launch(SwigluGrad<TensorView>{d_hidden, gate_up, w, d_gate_up, dw});
}

cudaError_t gelu(const TensorView& x, const TensorView& y, cudaStream_t stream) {
  const bool flattened = all_flat(x, y);
  const TensorView from = flattened ? flat(x) : x, to = flattened ? flat(y) : y;
  if (all_bf16(from, to)) return launch_tiles(to, Gelu<Bf16View>{from, to}, stream);
  return launch_tiles(to, Gelu<TensorView>{from, to}, stream);
}

cudaError_t gelu_grad(const TensorView& dy, const TensorView& x, const TensorView& dx, cudaStream_t stream) {
  if (all_bf16(dy, x, dx)) return launch_tiles(dx, GeluGrad<Bf16View>{dy, x, dx}, stream);
  return launch_tiles(dx, GeluGrad<TensorView>{dy, x, dx}, stream);
}

}  // namespace plumbline::real::cuda
