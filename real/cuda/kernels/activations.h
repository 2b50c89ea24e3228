// Activations of an MLP over [rows, columns] of any format, and their gradients.
#pragma once

#include <cuda_runtime_api.h>

#include "real/cuda/tensor_view.h"

namespace plumbline::real::cuda {

// out = weight * silu(gate) * up, where gate_up is [gate | up], twice as wide as out; `weights` [rows] may have no
// data.
cudaError_t swiglu(const TensorView& gate_up, const TensorView& weights, const TensorView& out, cudaStream_t stream);

// d_weights [rows] may have no data. If d_gate_up has scales, its halves must be whole tiles of 128 columns, else the
// result is cudaErrorInvalidValue.
cudaError_t swiglu_grad(const TensorView& d_hidden, const TensorView& gate_up, const TensorView& weights,
                        const TensorView& d_gate_up, const TensorView& d_weights, cudaStream_t stream);

cudaError_t gelu(const TensorView& x, const TensorView& y, cudaStream_t stream);
cudaError_t gelu_grad(const TensorView& dy, const TensorView& x, const TensorView& dx, cudaStream_t stream);

}  // namespace plumbline::real::cuda
