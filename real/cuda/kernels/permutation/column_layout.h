// Columns in another order: ranges that are split, concatenated, or assembled into heads.
#pragma once

#include <cuda_runtime_api.h>

#include "real/cuda/kernels/arithmetic/column_map.h"
#include "real/cuda/tensor_view.h"

namespace plumbline::real::cuda {

// y[row, c] = the part and column that the map names, for all columns of y. `second` may have no data if the map never
// names it. Formats are any; widths, strides and offsets in multiples of 8 are fast.
cudaError_t take_columns(const TensorView& first, const TensorView& second, const HeadColumns& map, const TensorView& y,
                         cudaStream_t stream);

struct Parts {
  TensorView view[most_parts];
  int count = 0;
};
cudaError_t concatenate(const Parts& parts, const TensorView& y, cudaStream_t stream);

// y[row, c] = sum over heads of x[row, head * stride + offset + c].
cudaError_t sum_heads(const TensorView& x, std::int64_t heads, std::int64_t stride, std::int64_t offset,
                      const TensorView& y, cudaStream_t stream);

}  // namespace plumbline::real::cuda
