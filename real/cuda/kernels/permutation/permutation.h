// The order of rows by expert and then by token, found on the GPU: the same for the same choice, run after run.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "real/cuda/kernels/arithmetic/row_order.h"

namespace plumbline::real::cuda {

constexpr int most_local_experts = 512;

// What is to be ordered, and the memory to do it in.
struct RowOrder {
  const std::int32_t* indices = nullptr;  // [tokens, slots]; local experts, -1 for those of other ranks
  std::int64_t tokens = 0;
  int slots = 0, experts = 0;
  std::int64_t alignment = 1;      // rows of an expert are filled up to a multiple of it
  std::int32_t* counts = nullptr;  // [experts, chunk_count(entries())]
  std::int32_t* totals = nullptr;  // [experts]

  PLUMBLINE_HOST_DEVICE std::int64_t entries() const { return tokens * slots; }
};

// Bytes of counts and totals.
std::int64_t row_order_bytes(std::int64_t entries, std::int64_t experts);

// Leaves in `totals` the rows of each expert, and in `counts` what place_rows() needs.
cudaError_t count_rows(const RowOrder& order, cudaStream_t stream);

// Rows that only fill up: map -1, weight 0. Any of the destinations but `positions` may be null.
struct PlacedRows {
  std::int64_t rows = 0;              // with those that fill up
  const float* weights = nullptr;     // [tokens, slots]
  std::int32_t* positions = nullptr;  // [tokens, slots]: the row of each, -1 for those of other ranks
  std::int32_t* map = nullptr;        // [rows]: the token of each row
  float* row_weights = nullptr;       // [rows]
  std::int32_t* offsets = nullptr;    // [experts + 1]
};
// After count_rows().
cudaError_t place_rows(const RowOrder& order, const PlacedRows& placed, cudaStream_t stream);

}  // namespace plumbline::real::cuda
