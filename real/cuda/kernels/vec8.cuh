// Eight adjacent elements of a row in any format (Vec8). Sixteen lanes hold a tile of 128 columns, the unit with its
// own scale. Kernels give each half warp a tile, so that formats with scales cost only a few shuffles more and kernels
// do not depend on the format. Thread blocks are one-dimensional, with whole warps.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "real/cuda/kernels/arithmetic.h"
#include "real/cuda/kernels/element.h"
#include "real/cuda/tensor_view.h"

namespace plumbline::real::cuda {

// --- Two adjacent values in a register: instructions of the device whose results arithmetic.h defines ---

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
  memcpy(static_cast<void*>(&two), &raw, sizeof raw);
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

// --- Eight values ---

constexpr int tile_lanes = 16;
constexpr int tile_vector = 8;

struct Vec8 {
  float v[tile_vector];
};

// A view of whole vectors in a compile-time format. Kernels are compiled for it, for most of training, and for any
// TensorView.
template <Format kFormat>
struct Aligned : TensorView {
  __device__ explicit Aligned(const TensorView& x) : TensorView(x) { format = kFormat; }
};

// The alignment in bytes that lets eight elements be read at once; 0: they are read one by one.
PLUMBLINE_HOST_DEVICE inline unsigned vector_alignment(Format format) {
  switch (format) {
    case Format::fp32:
    case Format::bf16:
    case Format::fp16:
      return 16;
    case Format::fp8_tile:
    case Format::fp8_block:
    case Format::fp8_tensor:
      return 8;
    case Format::e5m6:
      return 4;
    default:
      return 0;
  }
}

// Returns whether every eight columns from a multiple of 8 on can be accessed at once, so that Aligned may be used.
inline bool is_aligned(const TensorView& x, Format format) {
  return x.format == format && x.columns % tile_vector == 0 &&
         reinterpret_cast<std::uintptr_t>(x.data) % vector_alignment(format) == 0;
}

// Views all elements as one row: for vectors, which lie as n rows of one column, and for operands whose shape does not
// matter.
inline TensorView as_row(TensorView x) {
  x.columns = x.elements();
  x.rows = 1;
  return x;
}

// The address of element `at`, which is even in e5m6.
__device__ inline char* address(const TensorView& x, std::int64_t at) {
  return static_cast<char*>(x.data) + data_bytes(x.format, at);
}

// Returns whether the eight elements from `column` on lie in the row and can be accessed at once.
__device__ inline bool is_vector(const TensorView& x, std::int64_t row, std::int64_t column) {
  const unsigned alignment = vector_alignment(x.format);
  if (alignment == 0 || column + tile_vector > x.columns) return false;
  const std::int64_t at = row * x.columns + column;
  if (x.format == Format::e5m6 && at % tile_vector != 0) return false;
  return (reinterpret_cast<std::uintptr_t>(address(x, at)) & (alignment - 1)) == 0;
}

__device__ __noinline__ inline Vec8 load_singly(const TensorView& x, std::int64_t row, std::int64_t column) {
  Vec8 result{};
  for (int i = 0; i < tile_vector; ++i)
    if (column + i < x.columns) result.v[i] = load_one(x, row, column + i);
  return result;
}

__device__ inline Vec8 scaled(Vec8 values, float factor) {
#pragma unroll
  for (int i = 0; i < tile_vector; ++i) values.v[i] *= factor;
  return values;
}

__device__ inline Vec8 from_fp8(uint2 raw) {
  Vec8 result;
#pragma unroll
  for (int i = 0; i < tile_vector / 2; ++i) {
    const float2 two = from_two_fp8((i < 2 ? raw.x : raw.y) >> (i % 2 * 16));
    result.v[2 * i] = two.x;
    result.v[2 * i + 1] = two.y;
  }
  return result;
}

__device__ inline Vec8 from_e5m6(const std::uint32_t* from) {
  const std::uint32_t words[3] = {from[0], from[1], from[2]};
  std::uint32_t raw[tile_vector];
  unpack_vec8_e5m6(words, raw);
  Vec8 result;
#pragma unroll
  for (int i = 0; i < tile_vector; ++i) result.v[i] = e5m6_to_float(static_cast<std::uint16_t>(raw[i]));
  return result;
}

__device__ inline Vec8 from_16_bits(uint4 raw, bool bf16) {
  const std::uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
  Vec8 result;
#pragma unroll
  for (int i = 0; i < tile_vector / 2; ++i) {
    const float2 two = bf16 ? from_two_bf16(words[i]) : from_two_fp16(words[i]);
    result.v[2 * i] = two.x;
    result.v[2 * i + 1] = two.y;
  }
  return result;
}

__device__ inline Vec8 load_vector(const TensorView& x, std::int64_t row, std::int64_t column) {
  const char* const from = address(x, row * x.columns + column);
  switch (x.format) {
    case Format::fp32: {
      const float4 low = reinterpret_cast<const float4*>(from)[0], high = reinterpret_cast<const float4*>(from)[1];
      return {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
    }
    case Format::bf16:
    case Format::fp16:
      return from_16_bits(*reinterpret_cast<const uint4*>(from), x.format == Format::bf16);
    case Format::e5m6:
      return scaled(from_e5m6(reinterpret_cast<const std::uint32_t*>(from)), x.scales[scale_index(x, row, column)]);
    default:
      return scaled(from_fp8(*reinterpret_cast<const uint2*>(from)), x.scales[scale_index(x, row, column)]);
  }
}

// Loads elements column .. column + 7 of a row; 0 for those beyond the tensor's columns.
__device__ inline Vec8 load_vec8(const TensorView& x, std::int64_t row, std::int64_t column) {
  return is_vector(x, row, column) ? load_vector(x, row, column) : load_singly(x, row, column);
}
template <Format kFormat>
__device__ inline Vec8 load_vec8(const Aligned<kFormat>& x, std::int64_t row, std::int64_t column) {
  return column < x.columns ? load_vector(x, row, column) : Vec8{};
}

// Returns the largest magnitude of the eight values of each of the sixteen lanes, which call it together.
__device__ inline float tile_largest(const Vec8& values) {
  float largest = 0.0f;
#pragma unroll
  for (int i = 0; i < tile_vector; ++i) largest = fmaxf(largest, fabsf(values.v[i]));
  const unsigned half_warp = 0xffffu << (threadIdx.x & tile_lanes);
#pragma unroll
  for (int offset = tile_lanes / 2; offset > 0; offset /= 2)
    largest = fmaxf(largest, __shfl_xor_sync(half_warp, largest, offset));
  return largest;
}

// Returns the factor for values before they are stored. Formats with a scale per tile get their scale here.
__device__ inline float new_reciprocal(const TensorView& y, std::int64_t row, std::int64_t column, Vec8 values) {
  if (y.format == Format::fp8_tensor) return 1.0f / y.scales[0];
  if (y.format != Format::fp8_tile && y.format != Format::e5m6) return 1.0f;
#pragma unroll
  for (int i = 0; i < tile_vector; ++i)
    if (column + i >= y.columns) values.v[i] = 0.0f;
  const float largest = tile_largest(values);
  const float scale = y.format == Format::e5m6 ? e5m6_scale(largest) : block_scale(largest);
  if (threadIdx.x % tile_lanes == 0 && column < y.columns) y.scales[scale_index(y, row, column)] = scale;
  return 1.0f / scale;
}

__device__ inline void to_e5m6(const Vec8& values, std::uint32_t* to) {
  std::uint32_t raw[tile_vector], words[3];
#pragma unroll
  for (int i = 0; i < tile_vector; ++i) raw[i] = float_to_e5m6(values.v[i]);
  pack_vec8_e5m6(raw, words);
#pragma unroll
  for (int i = 0; i < 3; ++i) to[i] = words[i];
}

__device__ __noinline__ inline void store_singly(const TensorView& y, std::int64_t row, std::int64_t column,
                                                 const Vec8& values, float reciprocal) {
  const std::int64_t left = y.columns - column;
  const int count = static_cast<int>(left < tile_vector ? (left > 0 ? left : 0) : tile_vector);
  if (y.format == Format::e5m6) {
    auto* const to = reinterpret_cast<std::uint8_t*>(address(y, row * y.columns + column));
    for (int i = 0; i < count; i += 2)
      pack_e5m6(float_to_e5m6(values.v[i] * reciprocal), float_to_e5m6(values.v[i + 1] * reciprocal), to + i / 2 * 3);
    return;
  }
  for (int i = 0; i < count; ++i) store_one(y, row, column + i, values.v[i], reciprocal);
}

__device__ inline uint4 to_16_bits(const Vec8& e, bool bf16) {
  if (bf16)
    return make_uint4(to_two_bf16(e.v[0], e.v[1]), to_two_bf16(e.v[2], e.v[3]), to_two_bf16(e.v[4], e.v[5]),
                      to_two_bf16(e.v[6], e.v[7]));
  return make_uint4(to_two_fp16(e.v[0], e.v[1]), to_two_fp16(e.v[2], e.v[3]), to_two_fp16(e.v[4], e.v[5]),
                    to_two_fp16(e.v[6], e.v[7]));
}

__device__ inline uint2 to_fp8(const Vec8& e) {
  return make_uint2(to_two_fp8(e.v[0], e.v[1]) | to_two_fp8(e.v[2], e.v[3]) << 16,
                    to_two_fp8(e.v[4], e.v[5]) | to_two_fp8(e.v[6], e.v[7]) << 16);
}

__device__ inline void store_vector(const TensorView& y, std::int64_t row, std::int64_t column, const Vec8& values,
                                    float reciprocal) {
  char* const to = address(y, row * y.columns + column);
  switch (y.format) {
    case Format::fp32:
      reinterpret_cast<float4*>(to)[0] = make_float4(values.v[0], values.v[1], values.v[2], values.v[3]);
      reinterpret_cast<float4*>(to)[1] = make_float4(values.v[4], values.v[5], values.v[6], values.v[7]);
      return;
    case Format::bf16:
    case Format::fp16:
      *reinterpret_cast<uint4*>(to) = to_16_bits(values, y.format == Format::bf16);
      return;
    case Format::e5m6:
      return to_e5m6(scaled(values, reciprocal), reinterpret_cast<std::uint32_t*>(to));
    default:
      *reinterpret_cast<uint2*>(to) = to_fp8(scaled(values, reciprocal));
  }
}

// Stores a tile. All sixteen lanes of a half warp call it together; those beyond the tensor's columns store nothing.
// The scale of fp8_tensor must be set before; e5m6 needs an even number of columns. fp8_block cannot be stored by rows
// (kernels.h).
__device__ inline void store_vec8(const TensorView& y, std::int64_t row, std::int64_t column, const Vec8& values) {
  const float reciprocal = new_reciprocal(y, row, column, values);
  if (is_vector(y, row, column)) return store_vector(y, row, column, values, reciprocal);
  store_singly(y, row, column, values, reciprocal);
}
template <Format kFormat>
__device__ inline void store_vec8(const Aligned<kFormat>& y, std::int64_t row, std::int64_t column,
                                  const Vec8& values) {
  const float reciprocal = new_reciprocal(y, row, column, values);
  if (column < y.columns) store_vector(y, row, column, values, reciprocal);
}

}  // namespace plumbline::real::cuda
