// Deterministic sums over rows: each block sums its rows in FP32, then one kernel adds the blocks' sums in order.
#pragma once

#include <cuda_runtime_api.h>

#include "real/cuda/tensor_view.h"

namespace plumbline::real::cuda {

// to[c] += sum over i < parts of partial[i * stride + c], for each element c of `to`.
cudaError_t add_partial_sums(const float* partial, std::int64_t parts, std::int64_t stride, const TensorView& to,
                             cudaStream_t stream);

// to[c] += the sum of column c of x; `scratch` has column_sum_scratch bytes.
cudaError_t column_sum(const TensorView& x, const TensorView& to, float* scratch, int sms, cudaStream_t stream);
std::int64_t column_sum_scratch(const TensorView& x, int sms);

}  // namespace plumbline::real::cuda
