// Single elements of tensors in any format, for unaligned data and for kernels whose speed does not matter. Both the
// host and the device compiler take it.
#pragma once

#include "real/cuda/kernels/arithmetic.h"
#include "real/cuda/tensor_view.h"

namespace plumbline::real::cuda {

PLUMBLINE_HOST_DEVICE inline float load_one(const TensorView& x, std::int64_t row, std::int64_t column) {
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
    case Format::e5m6:
      return e5m6_to_float(
                 unpack_e5m6(static_cast<const std::uint8_t*>(x.data) + at / 2 * 3, static_cast<int>(at % 2))) *
             x.scales[scale_index(x, row, column)];
    case Format::int32:
      return static_cast<float>(static_cast<const std::int32_t*>(x.data)[at]);
    case Format::int64:
      return static_cast<float>(static_cast<const std::int64_t*>(x.data)[at]);
    case Format::uint8:
      return static_cast<float>(static_cast<const std::uint8_t*>(x.data)[at]);
  }
  return 0.0f;
}

// `reciprocal` is that of the existing scale of the element's block; e5m6 is stored in pairs only.
PLUMBLINE_HOST_DEVICE inline void store_one(const TensorView& y, std::int64_t row, std::int64_t column, float value,
                                            float reciprocal = 1.0f) {
  const std::int64_t at = row * y.columns + column;
  switch (y.format) {
    case Format::fp32:
      static_cast<float*>(y.data)[at] = value;
      return;
    case Format::bf16:
      static_cast<std::uint16_t*>(y.data)[at] = float_to_bf16(value);
      return;
    case Format::fp16:
      static_cast<std::uint16_t*>(y.data)[at] = float_to_fp16(value);
      return;
    case Format::fp8_tile:
    case Format::fp8_block:
    case Format::fp8_tensor:
      static_cast<std::uint8_t*>(y.data)[at] = float_to_fp8(value * reciprocal);
      return;
    case Format::int32:
      static_cast<std::int32_t*>(y.data)[at] = static_cast<std::int32_t>(value);
      return;
    case Format::int64:
      static_cast<std::int64_t*>(y.data)[at] = static_cast<std::int64_t>(value);
      return;
    case Format::uint8:
      static_cast<std::uint8_t*>(y.data)[at] = static_cast<std::uint8_t>(value);
      return;
    case Format::e5m6:
      return;
  }
}

}  // namespace plumbline::real::cuda
