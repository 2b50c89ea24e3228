// Number formats of tensors. Block-scaled FP8 includes its FP32 scales: one per 1x128 tile of an activation, one per
// 128x128 block of a weight (DeepSeek-V3 report, arXiv 2412.19437, section 3.3). MXFP8 and MXFP4 have a scale of one
// byte per 32 elements (OCP Microscaling Formats 1.0), NVFP4 one per 16 (arXiv 2509.25149). NF4 has one per 64, a byte
// itself scaled by an FP32 number per 256 of them (QLoRA, arXiv 2305.14314, sections 2 and 3: 0.127 bits an element).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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
  int64,
  mxfp8,
  nvfp4,
  mxfp4,
  int6,  // keys and values of DeepSeek-V2 (arXiv 2405.04434, section 3.2.2), whose scales are not published
  nf4
};

// Returns the bytes of an element, scales included (fp8_tile: 1 + 4/128; e5m6: 12 bits plus a tile's scale).
double bytes_per_element(DataType type);
std::string_view to_string(DataType type);
// Returns whether values are stored in 8 or 4 bits with scales: the operands of such GEMMs are made by casts.
inline bool is_quantized(DataType type) {
  return type == DataType::fp8_tile || type == DataType::fp8_block || type == DataType::fp8 || type >= DataType::mxfp8;
}

// Returns "fp8" for its three kinds of scales, else the format's name: what a quantized copy of a tensor is called by.
std::string_view quantized_name(DataType type);

// The formats that a plan can name: fp8 (block-scaled) | fp8_tensor (one scale per tensor) | bf16 | fp16 | fp32 | tf32
// | mxfp8 | nvfp4 | mxfp4.
enum class Precision : std::uint8_t { fp8, fp8_tensor, bf16, fp16, fp32, tf32, mxfp8, nvfp4, mxfp4 };
// Returns the names of all formats; then the same, separated by commas.
std::vector<std::string> precision_words();
std::string precision_names();
std::string_view to_string(Precision precision);
Result<Precision> parse_precision(std::string_view text);
DataType activation_type(Precision precision);  // fp8 -> fp8_tile, fp8_tensor -> fp8
DataType weight_type(Precision precision);      // fp8 -> fp8_block; fp8_tensor, mxfp8, nvfp4, mxfp4 -> bf16
DataType stored_weight(Precision precision);    // of inference: fp8 -> fp8_block, the others as activations
inline bool is_quantized(Precision precision) { return is_quantized(activation_type(precision)); }
// Returns whether scales are of a few neighbors, so that rows can be cast before it is known how many there are: all
// quantized formats but fp8_tensor.
inline bool is_block_scaled(Precision precision) {
  return is_quantized(precision) && precision != Precision::fp8_tensor;
}

}  // namespace plumbline::model
