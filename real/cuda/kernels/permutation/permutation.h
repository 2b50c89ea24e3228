// The order of rows by expert and then by token, computed on the GPU. It is deterministic.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "real/cuda/kernels/arithmetic/row_order.h"

namespace plumbline::real::cuda {

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

}  // namespace plumbline::real::cuda
