// Scales of FP8 operands in cuBLASLt's order, from their row-by-row order in a tensor (tensor_view.h).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "real/cuda/kernels/arithmetic.h"

namespace plumbline::real::cuda {

// Rows divided among experts: expert e has rows offsets[e] .. offsets[e + 1] - 1, on the device.
struct RowGroups {
  const std::int32_t* offsets = nullptr;
  std::int32_t first = 0, end = 0;  // experts
};

// Returns the index of the scale of block `block` along k of row `row`. Each expert's scales are one contiguous piece,
// which begins at its first row times the number of blocks. `row` is relative to the first expert's first row.
PLUMBLINE_HOST_DEVICE inline std::int64_t grouped_scale_index(const RowGroups& groups, std::int64_t row,
                                                              std::int64_t block, std::int64_t blocks) {
  std::int32_t low = groups.first, high = groups.end;  // the last expert that begins at the row or before, not empty
  while (high - low > 1) {
    const std::int32_t middle = low + (high - low) / 2;
    (groups.offsets[middle] <= row ? low : high) = middle;
  }
  const std::int64_t start = groups.offsets[low], base = groups.offsets[groups.first];
  return (start - base) * blocks + row_scale_index(row - start, block, groups.offsets[low + 1] - start);
}

// Scales per row and 128 columns: from [rows, blocks] to [blocks, rows].
cudaError_t lay_out_rows(const float* from, float* to, std::int64_t rows, std::int64_t blocks, cudaStream_t stream);

// The same, expert by expert; `from` is the first of the experts' rows, of which there are `rows` in all.
cudaError_t lay_out_grouped_rows(const float* from, float* to, const RowGroups& groups, std::int64_t rows,
                                 std::int64_t blocks, cudaStream_t stream);

// Scales per 128 x 128: from [block rows, blocks] to [block rows, blocks padded to a multiple of 4]; padding is 0.
cudaError_t lay_out_squares(const float* from, float* to, std::int64_t block_rows, std::int64_t blocks,
                            cudaStream_t stream);

}  // namespace plumbline::real::cuda
