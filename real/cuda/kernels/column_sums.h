// Sums over rows, the same in every run: blocks add up rows of their own in FP32, then one kernel adds their sums in
// order.
#pragma once

#include <cuda_runtime_api.h>

#include "real/cuda/tensor_view.h"

namespace plumbline::real::cuda {

// to[c] += sum over i < parts of partial[i * stride + c], for as many c as `to` has elements.
cudaError_t add_partial_sums(const float* partial, std::int64_t parts, std::int64_t stride, const TensorView& to,
                             cudaStream_t stream);

// to[c] += sum of column c of x. `scratch`: column_sum_scratch bytes.
cudaError_t column_sum(const TensorView& x, const TensorView& to, float* scratch, int sms, cudaStream_t stream);
std::int64_t column_sum_scratch(const TensorView& x, int sms);

}  // namespace plumbline::real::cuda
