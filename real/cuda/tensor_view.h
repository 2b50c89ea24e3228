// A tensor in device memory as kernels see it: row-major, in one of the executed formats. Plain data that the host and
// the device compiler share.
#pragma once

#include <cstdint>

#include "real/cuda/kernels/arithmetic.h"

namespace plumbline::real::cuda {

// fp8_tile is E4M3 with an FP32 scale per row and 128 columns; fp8_block has one per 128 x 128 block of each matrix,
// fp8_tensor has one. e5m6 has 12 bits, two values in three bytes, with a scale per row and 128 columns.
enum class Format : std::uint8_t { fp32, bf16, fp16, fp8_tile, fp8_block, fp8_tensor, e5m6, int32, int64, uint8 };

// Formats without scales, whose elements are addressable one by one.
constexpr bool is_float(Format format) {
  return format == Format::fp32 || format == Format::bf16 || format == Format::fp16;
}
constexpr bool is_fp8(Format format) {
  return format == Format::fp8_tile || format == Format::fp8_block || format == Format::fp8_tensor;
}

struct TensorView {
  void* data = nullptr;     // 16-byte aligned
  float* scales = nullptr;  // stored value * scale = value; nullptr where the format has none
  Format format = Format::bf16;
  std::int64_t rows = 0, columns = 0;
  std::int64_t matrix_rows = 0;  // fp8_block: rows of each of the stacked matrices (experts)

  PLUMBLINE_HOST_DEVICE std::int64_t elements() const { return rows * columns; }
};

// Scales lie in the order of the values: [rows, tiles of columns] for tiles, [matrices * tiles of matrix_rows, tiles of
// columns] for blocks. Another order for a library is made right before its call.
constexpr std::int64_t scale_count(Format format, std::int64_t rows, std::int64_t columns, std::int64_t matrix_rows) {
  switch (format) {
    case Format::fp8_tile:
    case Format::e5m6:
      return rows * tiles_of(columns);
    case Format::fp8_block:
      return rows / (matrix_rows > 0 ? matrix_rows : 1) * tiles_of(matrix_rows) * tiles_of(columns);
    case Format::fp8_tensor:
      return 1;
    default:
      return 0;
  }
}

// Returns the index of an element's scale among those of its tensor, which must have scales.
PLUMBLINE_HOST_DEVICE inline std::int64_t scale_index(const TensorView& x, std::int64_t row, std::int64_t column) {
  if (x.format == Format::fp8_tensor) return 0;
  const std::int64_t tiles = tiles_of(x.columns), tile = column / scale_tile;
  if (x.format != Format::fp8_block) return row * tiles + tile;
  const std::int64_t height = x.matrix_rows > 0 ? x.matrix_rows : x.rows;
  return (row / height * tiles_of(height) + row % height / scale_tile) * tiles + tile;
}

// The bytes of that many elements, without scales.
PLUMBLINE_HOST_DEVICE constexpr std::int64_t data_bytes(Format format, std::int64_t elements) {
  switch (format) {
    case Format::fp32:
    case Format::int32:
      return elements * 4;
    case Format::int64:
      return elements * 8;
    case Format::bf16:
    case Format::fp16:
      return elements * 2;
    case Format::e5m6:
      return (elements + 1) / 2 * 3;
    default:
      return elements;
  }
}

// --- A part of a row-major tensor, as GEMMs and the layout of their scales take it. Plain data ---

struct MatrixPart {
  TensorView tensor;
  std::int64_t row = 0, column = 0;    // where it begins
  std::int64_t rows = 0, columns = 0;  // its extent

  void* data() const {
    return static_cast<char*>(tensor.data) + data_bytes(tensor.format, row * tensor.columns + column);
  }
};

inline MatrixPart whole(const TensorView& tensor) { return {tensor, 0, 0, tensor.rows, tensor.columns}; }
inline MatrixPart rows_of(const TensorView& tensor, std::int64_t row, std::int64_t rows) {
  return {tensor, row, 0, rows, tensor.columns};
}
inline MatrixPart columns_of(const TensorView& tensor, std::int64_t column, std::int64_t columns) {
  return {tensor, 0, column, tensor.rows, columns};
}

}  // namespace plumbline::real::cuda
