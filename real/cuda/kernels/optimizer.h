// Optimizer kernels on shards of gradients, moments and weights: vectors in FP32, BF16 or FP16. Views are taken as one
// row, whatever their shape. Vectors that are not 16-byte aligned are slower.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "real/cuda/kernels/arithmetic/optimizer.h"
#include "real/cuda/tensor_view.h"

namespace plumbline::real::cuda {

// partial[block] = weight * the sum of squares of a block's elements, for sum_blocks(elements) blocks.
cudaError_t squares(const TensorView& x, double weight, double* partial, cudaStream_t stream);

// total[0] = the sum of `count` numbers.
cudaError_t add_partial(const double* partial, std::int64_t count, float* total, cudaStream_t stream);

// y = x / divisor[0]; found[0] becomes 1 if an element of x is not finite.
cudaError_t divide(const TensorView& x, const float* divisor, const TensorView& y, float* found, cudaStream_t stream);

struct UpdateViews {
  TensorView gradient, master, first, second;
  TensorView weight;  // without data: the master weights are the only ones
};
// `sum_of_squares` is that of the whole gradient, on the device; null: the gradient is not clipped.
cudaError_t update(const UpdateRule& rule, const UpdateViews& views, const float* sum_of_squares, double largest_norm,
                   cudaStream_t stream);

}  // namespace plumbline::real::cuda
