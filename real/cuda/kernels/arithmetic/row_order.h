// The order of rows by expert and then by token, as inline functions for the host and the device compiler.
#pragma once

#include <cstdint>

#include "real/cuda/kernels/arithmetic.h"

namespace plumbline::real::cuda {

// Each expert's rows are padded to a multiple of this: the scales of transposed FP8 rows cover 128 of them, which must
// not belong to two experts.
constexpr int row_alignment_fp8 = 128;

PLUMBLINE_HOST_DEVICE constexpr std::int64_t aligned_rows(std::int64_t rows, std::int64_t alignment) {
  return (rows + alignment - 1) / alignment * alignment;
}

// Entries (token, slot) are counted in chunks, in order; each chunk is counted by one warp.
constexpr int most_chunks = 1024;

PLUMBLINE_HOST_DEVICE constexpr std::int64_t chunk_entries(std::int64_t entries) {
  const std::int64_t per_chunk = (entries + most_chunks - 1) / most_chunks;
  return aligned_rows(per_chunk > 0 ? per_chunk : 1, 32);
}
PLUMBLINE_HOST_DEVICE constexpr std::int64_t chunk_count(std::int64_t entries) {
  return entries == 0 ? 0 : (entries + chunk_entries(entries) - 1) / chunk_entries(entries);
}

PLUMBLINE_HOST_DEVICE inline int bits_set(std::uint32_t mask) {
#ifdef __CUDA_ARCH__
  return __popc(mask);
#else
  return __builtin_popcount(mask);
#endif
}
// Returns the number of lower lanes with the same expert; `same` is the mask of all lanes that have it.
PLUMBLINE_HOST_DEVICE inline int rank_among(std::uint32_t same, int lane) {
  return bits_set(same & ((std::uint32_t{1} << lane) - 1));
}

// Returns the rank of value `at` among the nonnegative ones of an array, by size; values are distinct.
template <class Value>
PLUMBLINE_HOST_DEVICE int place_among(const Value* values, int count, int at) {
  int place = 0;
  for (int i = 0; i < count; ++i) place += values[i] >= 0 && values[i] < values[at] ? 1 : 0;
  return place;
}

}  // namespace plumbline::real::cuda
