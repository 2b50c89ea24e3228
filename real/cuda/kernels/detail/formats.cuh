// Elements of the formats as a thread reads and writes them, with the device's conversion instructions if it has them.
// arithmetic.h defines their results.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "real/cuda/kernels/arithmetic.h"
#include "real/cuda/tensor_view.h"

namespace plumbline::real::cuda {

// --- Two adjacent values in a register ---

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

}  // namespace plumbline::real::cuda
