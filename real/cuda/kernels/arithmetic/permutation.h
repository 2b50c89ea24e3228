// Orders of rows and of columns, as inline functions for the host and the device compiler.
#pragma once

#include <cstdint>

#include "real/cuda/kernels/arithmetic.h"
#include "real/cuda/tensor_view.h"

namespace plumbline::real::cuda {

// --- The order of rows by expert and then by token, as inline functions for the host and the device compiler ---

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

// --- The source of each column of a rearranged tensor, as inline functions for the host and the device compiler ---

struct ColumnSource {
  int part = 0;             // which of the inputs
  std::int64_t column = 0;  // of that input
  std::int64_t run = 0;     // consecutive columns from this one on that are contiguous in the input
};

// A repeated pair of column ranges: `first_width` columns of part 0, then `second_width` of part 1, for each head. Head
// h reads each part from h * stride + offset on; a stride of 0 gives every head the same columns.
struct HeadColumns {
  std::int64_t first_width = 0, first_stride = 0, first_offset = 0;
  std::int64_t second_width = 0, second_stride = 0, second_offset = 0;

  PLUMBLINE_HOST_DEVICE ColumnSource operator()(std::int64_t column) const {
    const auto width = static_cast<std::uint32_t>(first_width + second_width);
    const auto head =
        static_cast<std::uint32_t>(column) / width;  // 32 bits: a 64-bit division takes several times as long
    const std::int64_t within = column - static_cast<std::int64_t>(head) * width;
    if (within < first_width) return {0, head * first_stride + first_offset + within, first_width - within};
    const std::int64_t beyond = within - first_width;
    return {1, head * second_stride + second_offset + beyond, second_width - beyond};
  }
};

// Parts that are concatenated along columns.
constexpr int most_parts = 8;
struct SideBySide {
  std::int64_t width[most_parts] = {};
  int count = 0;

  PLUMBLINE_HOST_DEVICE ColumnSource operator()(std::int64_t column) const {
    int part = 0;
    for (; part + 1 < count && column >= width[part]; ++part) column -= width[part];
    return {part, column, width[part] - column};
  }
};

// --- Transposes the bytes of a 4 x 4 block in registers ---

// Picks four of the eight bytes of `low` (0..3) and `high` (4..7), one per digit of `digits`, the lowest first.
PLUMBLINE_HOST_DEVICE inline std::uint32_t pick_bytes(std::uint32_t low, std::uint32_t high, std::uint32_t digits) {
#ifdef __CUDA_ARCH__
  return __byte_perm(low, high, digits);
#else
  const std::uint64_t bytes = low | static_cast<std::uint64_t>(high) << 32;
  std::uint32_t picked = 0;
  for (int i = 0; i < 4; ++i)
    picked |= static_cast<std::uint32_t>(bytes >> (digits >> 4 * i & 7u) * 8 & 0xffu) << 8 * i;
  return picked;
#endif
}

// Byte i of word j becomes byte j of word i.
PLUMBLINE_HOST_DEVICE inline void turn_bytes(std::uint32_t (&words)[4]) {
  const std::uint32_t low01 = pick_bytes(words[0], words[1], 0x5140u), high01 = pick_bytes(words[0], words[1], 0x7362u);
  const std::uint32_t low23 = pick_bytes(words[2], words[3], 0x5140u), high23 = pick_bytes(words[2], words[3], 0x7362u);
  words[0] = pick_bytes(low01, low23, 0x5410u);
  words[1] = pick_bytes(low01, low23, 0x7632u);
  words[2] = pick_bytes(high01, high23, 0x5410u);
  words[3] = pick_bytes(high01, high23, 0x7632u);
}

}  // namespace plumbline::real::cuda
