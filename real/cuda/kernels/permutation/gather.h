// Rows and columns gathered by a map, and sums of rows. For each of the `n` rows or columns of the result, a map has
// the one of `x` from which it comes; indices outside of `x` give zeros.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "real/cuda/tensor_view.h"

namespace plumbline::real::cuda {

// y[n] = x[map[n] - first], in any two formats with scales along rows or none.
cudaError_t gather_rows(const TensorView& x, const std::int32_t* map, std::int64_t first, const TensorView& y,
                        cudaStream_t stream);

// y[:, n] = x[:, map[n]]; FP8 gets new scales.
cudaError_t gather_columns(const TensorView& x, const std::int32_t* map, const TensorView& y, cudaStream_t stream);

// y[t] = the sum of the rows positions[t, slots] of x, in FP32 and in the order of the rows; negative positions are
// skipped. At most 32 slots.
cudaError_t sum_rows(const TensorView& x, const std::int32_t* positions, std::int64_t slots, const TensorView& y,
                     cudaStream_t stream);
constexpr std::int64_t most_summed_rows = 32;

// y[i] = x[positions[i]], or 0.
cudaError_t gather_numbers(const float* x, const std::int32_t* positions, float* y, std::int64_t count,
                           cudaStream_t stream);

}  // namespace plumbline::real::cuda
