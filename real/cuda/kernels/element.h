// Single elements of tensors in any format but the packed one (e5m6), for kernels whose speed does not matter. Both
// compilers take it.
#pragma once

#include "real/cuda/arithmetic.h"
#include "real/cuda/tensor_view.h"

namespace plumbline::real::cuda {

// Where the scale of an element stands among those of its tensor (tensor_view.h).
PLUMBLINE_HOST_DEVICE inline std::int64_t scale_index(const TensorView& x, std::int64_t row, std::int64_t column) {
  if (x.format == Format::fp8_tensor) return 0;
  const std::int64_t blocks = block_count(x.columns), block = column / scale_block;
  if (x.format == Format::fp8_tile) return row * blocks + block;
  const std::int64_t height = x.matrix_rows > 0 ? x.matrix_rows : x.rows;
  return (row / height * block_count(height) + row % height / scale_block) * blocks + block;
}

PLUMBLINE_HOST_DEVICE inline float load_element(const TensorView& x, std::int64_t row, std::int64_t column) {
  const std::int64_t at = row * x.columns + column;
  switch (x.format) {
    case Format::fp32:
      return static_cast<const float*>(x.data)[at];
    case Format::bf16:
      return bf16_to_float(static_cast<const std::uint16_t*>(x.data)[at]);
    case Format::fp16:
      return fp16_to_float(static_cast<const std::uint16_t*>(x.data)[at]);
    case Format::fp8_tile:
    case Format::fp8_block:
    case Format::fp8_tensor:
      return fp8_to_float(static_cast<const std::uint8_t*>(x.data)[at]) * x.scales[scale_index(x, row, column)];
    default:
      return float_of(0x7fc00000u);  // no number of a product: NaN, so that nobody takes it for one
  }
}

// fp32, bf16 and fp16 alone: other formats have scales that no single element decides.
PLUMBLINE_HOST_DEVICE inline void store_element(const TensorView& y, std::int64_t row, std::int64_t column,
                                                float value) {
  const std::int64_t at = row * y.columns + column;
  if (y.format == Format::fp32) static_cast<float*>(y.data)[at] = value;
  if (y.format == Format::bf16) static_cast<std::uint16_t*>(y.data)[at] = float_to_bf16(value);
  if (y.format == Format::fp16) static_cast<std::uint16_t*>(y.data)[at] = float_to_fp16(value);
}

}  // namespace plumbline::real::cuda
