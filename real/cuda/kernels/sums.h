// Sums and gates over [rows, columns] of any format. The caller ensures that shapes agree.
#pragma once

#include <cuda_runtime_api.h>

#include "real/cuda/tensor_view.h"

namespace plumbline::real::cuda {

constexpr int most_addends = 8;
struct Addends {
  TensorView view[most_addends];
  int count = 0;
};
// y may be one of the addends.
cudaError_t add(const Addends& addends, const TensorView& y, cudaStream_t stream);

// sum = y + bias[columns].
cudaError_t add_bias(const TensorView& y, const TensorView& bias, const TensorView& sum, cudaStream_t stream);

// out = sigmoid(gate[rows]) * y.
cudaError_t sigmoid_gate(const TensorView& y, const TensorView& gate, const TensorView& out, cudaStream_t stream);
cudaError_t sigmoid_gate_grad(const TensorView& d_out, const TensorView& y, const TensorView& gate,
                              const TensorView& dy, const TensorView& d_gate, cudaStream_t stream);

}  // namespace plumbline::real::cuda
