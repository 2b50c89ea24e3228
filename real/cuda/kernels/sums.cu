#include "real/cuda/kernels/arithmetic/rows.h"
#include "real/cuda/kernels/elementwise.cuh"
#include "real/cuda/kernels/kernels.h"
#include "real/cuda/kernels/row_teams.cuh"

namespace plumbline::real::cuda {
namespace {

template <class View>
struct Add {
  Addends addends;
  TensorView y;
  __device__ void operator()(std::int64_t row, std::int64_t column) const {
    Vec8 sum{};
#pragma unroll
    for (int a = 0; a < most_addends; ++a) {
      if (a >= addends.count) continue;
      const Vec8 values = load_vec8(View(addends.view[a]), row, column);
#pragma unroll
      for (int i = 0; i < tile_vector; ++i) sum.v[i] += values.v[i];
    }
    store_vec8(View(y), row, column, sum);
  }
};

template <class View>
struct AddBias {
  TensorView y, bias, sum;
  __device__ void operator()(std::int64_t row, std::int64_t column) const {
    Vec8 values = load_vec8(View(y), row, column);
    const Vec8 shift = load_vec8(View(bias), 0, column);
#pragma unroll
    for (int i = 0; i < tile_vector; ++i) values.v[i] += shift.v[i];
    store_vec8(View(sum), row, column, values);
  }
};

template <class View>
struct SigmoidGate {
  TensorView y, gate, out;
  __device__ void operator()(std::int64_t row, std::int64_t column) const {
    store_vec8(View(out), row, column, scaled(load_vec8(View(y), row, column), sigmoid(load_one(gate, row, 0))));
  }
};

template <class View>
struct SigmoidGateGrad {
  TensorView d_out, y, gate, dy, d_gate;
  __device__ float vector(std::int64_t row, std::int64_t column) const {
    const Vec8 d = load_vec8(View(d_out), row, column), values = load_vec8(View(y), row, column);
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < tile_vector; ++i) sum += d.v[i] * values.v[i];
    store_vec8(View(dy), row, column, scaled(d, sigmoid(load_one(gate, row, 0))));
    return sum;
  }
  __device__ void finish(std::int64_t row, float sum) const {
    const float s = sigmoid(load_one(gate, row, 0));
    store_one(d_gate, row, 0, sum * s * (1.0f - s));
  }
};

}  // namespace

cudaError_t add(const Addends& addends, const TensorView& y, cudaStream_t stream) {
  bool flattened = y.scales == nullptr;
  for (int a = 0; a < addends.count; ++a) flattened = flattened && addends.view[a].scales == nullptr;
  Addends from = addends;
  const TensorView to = flattened ? flat(y) : y;
  bool bf16 = all_bf16(to);
  for (int a = 0; a < from.count; ++a) {
    if (flattened) from.view[a] = flat(from.view[a]);
    bf16 = bf16 && all_bf16(from.view[a]);
  }
  return bf16 ? launch_tiles(to, Add<Bf16View>{from, to}, stream) : launch_tiles(to, Add<TensorView>{from, to}, stream);
}

cudaError_t add_bias(const TensorView& y, const TensorView& bias, const TensorView& sum, cudaStream_t stream) {
  const TensorView row = as_row(bias);
  if (all_bf16(y, row, sum)) return launch_tiles(sum, AddBias<Bf16View>{y, row, sum}, stream);
  return launch_tiles(sum, AddBias<TensorView>{y, row, sum}, stream);
}

cudaError_t sigmoid_gate(const TensorView& y, const TensorView& gate, const TensorView& out, cudaStream_t stream) {
  if (all_bf16(y, out)) return launch_tiles(out, SigmoidGate<Bf16View>{y, gate, out}, stream);
  return launch_tiles(out, SigmoidGate<TensorView>{y, gate, out}, stream);
}

cudaError_t sigmoid_gate_grad(const TensorView& d_out, const TensorView& y, const TensorView& gate,
                              const TensorView& dy, const TensorView& d_gate, cudaStream_t stream) {
  if (all_bf16(d_out, y, dy))
    return launch_row_sums(y.rows, y.columns, SigmoidGateGrad<Bf16View>{d_out, y, gate, dy, d_gate}, stream);
  return launch_row_sums(y.rows, y.columns, SigmoidGateGrad<TensorView>{d_out, y, gate, dy, d_gate}, stream);
}

}  // namespace plumbline::real::cuda
