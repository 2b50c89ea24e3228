// Kernels that move rows and columns: permutation by expert, gathering, transposes, layouts of columns and scales, and
// tables that tokens index.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "real/cuda/kernels/arithmetic.h"
#include "real/cuda/kernels/arithmetic/permutation.h"
#include "real/cuda/tensor_view.h"

namespace plumbline::real::cuda {

// --- The order of rows by expert and then by token, which is deterministic ---

constexpr int most_local_experts = 512;

// The entries to order, and the memory for it.
struct RowOrder {
  const std::int32_t* indices = nullptr;  // [tokens, slots]; local experts, -1 for those of other ranks
  std::int64_t tokens = 0;
  int slots = 0, experts = 0;
  std::int64_t alignment = 1;      // each expert's rows are padded to a multiple of it
  std::int32_t* counts = nullptr;  // [experts, chunk_count(entries())]
  std::int32_t* totals = nullptr;  // [experts]

  PLUMBLINE_HOST_DEVICE std::int64_t entries() const { return tokens * slots; }
};

// Bytes of counts and totals.
std::int64_t row_order_bytes(std::int64_t entries, std::int64_t experts);

// Writes the rows of each expert to `totals`, and what place_rows() needs to `counts`.
cudaError_t count_rows(const RowOrder& order, cudaStream_t stream);

// Padding rows have map -1 and weight 0. Any destination but `positions` may be null.
struct PlacedRows {
  std::int64_t rows = 0;              // with padding
  const float* weights = nullptr;     // [tokens, slots]
  std::int32_t* positions = nullptr;  // [tokens, slots]: the row of each, -1 for those of other ranks
  std::int32_t* map = nullptr;        // [rows]: the token of each row
  float* row_weights = nullptr;       // [rows]
  std::int32_t* offsets = nullptr;    // [experts + 1]
};
// Requires count_rows().
cudaError_t place_rows(const RowOrder& order, const PlacedRows& placed, cudaStream_t stream);

// --- Columns in another order: ranges that are split, concatenated, or assembled into heads ---

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

// --- Rows and columns gathered by a map, and sums of rows ---

// For each of the `n` rows or columns of the result, a map has the one of `x` from which it comes; indices outside of
// `x` give zeros.

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

// --- Scales of FP8 operands in cuBLASLt's order, from their row-by-row order in a tensor (tensor_view.h) ---

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

// --- Kernels on token ids: gradients of tables that tokens index, and positions in a sequence ---

// order[i] = the token at place i by id and then by token: a stable sort. Its work grows with the square of the tokens:
// 0.2 ms at 32768 (estimated), less than the passes of a radix sort.
cudaError_t order_by_id(const std::int32_t* ids, std::int64_t tokens, std::int32_t* order, cudaStream_t stream);

// table[ids[t] - first] += dx[t], one after the other in the order of tokens; ids outside of the table are skipped.
cudaError_t add_rows_by_id(const TensorView& dx, const std::int32_t* ids, const std::int32_t* order, std::int64_t first,
                           const TensorView& table, cudaStream_t stream);

// y[t] = x[t] + table[t % length], or that many rows on as earlier[t / length] counts where it is not nullptr.
cudaError_t add_positions(const TensorView& x, const TensorView& table, std::int64_t length,
                          const std::int32_t* earlier, const TensorView& y, cudaStream_t stream);

// table[p] += the sum of all dx[t] with t % length = p.
cudaError_t add_rows_by_position(const TensorView& dx, std::int64_t length, const TensorView& table,
                                 cudaStream_t stream);

// to[t] = ids[t + distance], within sequences of that length; the last tokens take the last id.
cudaError_t shift_ids(const std::int32_t* ids, std::int64_t tokens, std::int64_t distance, std::int64_t length,
                      std::int32_t* to, cudaStream_t stream);

// --- Transposes, in the same or another format ---

// x has stacked matrices [n, m], y as many matrices [m, n] (y.columns = n). New scales are along n. With a row map, x
// is one matrix: row i < n is x[row_map[i]], or zeros if that lies outside of x. Sizes are any; multiples of 8 are
// fast. fp8_block is made only from fp8_block (turn_blocks), else the result is cudaErrorNotSupported.
cudaError_t transpose(const TensorView& x, const std::int32_t* row_map, const TensorView& y, cudaStream_t stream);

// Transposes fp8_block to fp8_block: bytes and scales are moved, nothing is rounded.
cudaError_t turn_blocks(const TensorView& x, const TensorView& y, cudaStream_t stream);

}  // namespace plumbline::real::cuda
