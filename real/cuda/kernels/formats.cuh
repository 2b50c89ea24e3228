// Elements of the formats as a thread reads and writes them, with the conversion instructions of the device where there
// are any (arithmetic.h says what they must give).
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "real/cuda/arithmetic.h"
#include "real/cuda/tensor_view.h"

namespace plumbline::real::cuda {

// --- Two neighbouring values in a register ---

__device__ inline float2 from_two_bf16(std::uint32_t raw) {
  return make_float2(float_of(raw << 16), float_of(raw & 0xffff0000u));
}
__device__ inline std::uint32_t to_two_bf16(float low, float high) {
  const __nv_bfloat162 two = __floats2bfloat162_rn(low, high);
  std::uint32_t raw;
  memcpy(&raw, &two, sizeof raw);
  return raw;
}

__device__ inline float2 from_two_fp16(std::uint32_t raw) {
  __half2 two;
  memcpy(&two, &raw, sizeof raw);
  return __half22float2(two);
}
__device__ inline std::uint32_t to_two_fp16(float low, float high) {
  const __half2 two = __floats2half2_rn(low, high);
  std::uint32_t raw;
  memcpy(&raw, &two, sizeof raw);
  return raw;
}

__device__ inline float2 from_two_fp8(std::uint32_t raw) {
  const __half2_raw two = __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(raw & 0xffffu), __NV_E4M3);
  return __half22float2(__half2(two));
}
__device__ inline std::uint32_t to_two_fp8(float low, float high) {
  return __nv_cvt_float2_to_fp8x2(make_float2(low, high), __NV_SATFINITE, __NV_E4M3);
}

// --- Scales ---

// Where the scale of an element lies; only of formats that have scales.
__device__ inline std::int64_t scale_index(const TensorView& x, std::int64_t row, std::int64_t column) {
  if (x.format == Format::fp8_tensor) return 0;
  const std::int64_t tiles = tiles_of(x.columns), tile = column / scale_tile;
  if (x.format != Format::fp8_block) return row * tiles + tile;
  const std::int64_t matrix = row / x.matrix_rows, within = row % x.matrix_rows;
  return (matrix * tiles_of(x.matrix_rows) + within / scale_tile) * tiles + tile;
}

// --- One element, in any format: for what is not aligned ---

__device__ inline float load_one(const TensorView& x, std::int64_t row, std::int64_t column) {
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

// `reciprocal` of the scale that the element's block already has; e5m6 is stored in pairs only.
__device__ inline void store_one(const TensorView& y, std::int64_t row, std::int64_t column, float value,
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
