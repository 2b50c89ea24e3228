// Number formats of tensors. Block-scaled FP8 includes its FP32 scales: one per 1x128 tile of an activation, one per
// 128x128 block of a weight (DeepSeek-V3 report, arXiv 2412.19437, section 3.3).
#pragma once

#include <cstdint>
#include <string_view>

#include "model/base/error.h"

namespace plumbline::model {

enum class DataType : std::uint8_t {
  fp32,
  tf32,  // stored as fp32, multiplied with 10 bits of mantissa
  bf16,
  fp16,
  e5m6,
  fp8_tile,
  fp8_block,
  fp8,  // one scale for the whole tensor
  uint8,
  int32,
  int64
};

// Returns the bytes of an element, scales included (fp8_tile: 1 + 4/128; e5m6: 12 bits plus a tile's scale).
double bytes_per_element(DataType type);
std::string_view to_string(DataType type);
inline bool is_fp8(DataType type) {
  return type == DataType::fp8_tile || type == DataType::fp8_block || type == DataType::fp8;
}

// The formats that a plan can name: fp8 (block-scaled) | fp8_tensor (one scale per tensor) | bf16 | fp16 | fp32 | tf32.
enum class Precision : std::uint8_t { fp8, fp8_tensor, bf16, fp16, fp32, tf32 };
inline bool is_fp8(Precision precision) { return precision == Precision::fp8 || precision == Precision::fp8_tensor; }
std::string_view to_string(Precision precision);
Result<Precision> parse_precision(std::string_view text);
DataType activation_type(Precision precision);  // fp8 -> fp8_tile, fp8_tensor -> fp8
DataType weight_type(Precision precision);      // fp8 -> fp8_block, fp8_tensor -> bf16

}  // namespace plumbline::model
