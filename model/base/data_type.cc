#include "model/base/data_type.h"

#include <array>
#include <cassert>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline::model {
namespace {

constexpr double scale_bytes = 4;  // one FP32 scale per tile or block
constexpr double tile_elements = 128;
constexpr double block_elements = 128 * 128;
constexpr std::array precisions = {Precision::fp8,  Precision::fp8_tensor, Precision::bf16,
                                   Precision::fp16, Precision::fp32,       Precision::tf32};

}  // namespace

double bytes_per_element(DataType type) {
  switch (type) {
    case DataType::fp32:
    case DataType::tf32:
    case DataType::int32:
      return 4;
    case DataType::bf16:
    case DataType::fp16:
      return 2;
    case DataType::e5m6:
      return 1.5 + scale_bytes / tile_elements;
    case DataType::fp8_tile:
      return 1 + scale_bytes / tile_elements;
    case DataType::fp8_block:
      return 1 + scale_bytes / block_elements;
    case DataType::fp8:
    case DataType::uint8:
      return 1;
    case DataType::int64:
      return 8;
  }
  assert(false && "unknown data type");
  return 0;
}

std::string_view to_string(DataType type) {
  switch (type) {
    case DataType::fp32:
      return "fp32";
    case DataType::tf32:
      return "tf32";
    case DataType::bf16:
      return "bf16";
    case DataType::fp16:
      return "fp16";
    case DataType::e5m6:
      return "e5m6";
    case DataType::fp8_tile:
      return "fp8_tile";
    case DataType::fp8_block:
      return "fp8_block";
    case DataType::fp8:
      return "fp8";
    case DataType::uint8:
      return "uint8";
    case DataType::int32:
      return "int32";
    case DataType::int64:
      return "int64";
  }
  assert(false && "unknown data type");
  return "";
}

std::string_view to_string(Precision precision) {
  switch (precision) {
    case Precision::fp8:
      return "fp8";
    case Precision::fp8_tensor:
      return "fp8_tensor";
    case Precision::bf16:
      return "bf16";
    case Precision::fp16:
      return "fp16";
    case Precision::fp32:
      return "fp32";
    case Precision::tf32:
      return "tf32";
  }
  assert(false && "unknown precision");
  return "";
}

Result<Precision> parse_precision(std::string_view text) {
  std::vector<std::string> names;
  for (const Precision precision : precisions) {
    if (to_string(precision) == text) return precision;
    names.emplace_back(to_string(precision));
  }
  return wrong_input("", "unknown precision '" + std::string(text) + "'",
                     did_you_mean_before(text, names, "one of fp8, fp8_tensor, bf16, fp16, fp32, tf32"));
}

DataType activation_type(Precision precision) {
  switch (precision) {
    case Precision::fp8:
      return DataType::fp8_tile;
    case Precision::fp8_tensor:
      return DataType::fp8;
    case Precision::bf16:
      return DataType::bf16;
    case Precision::fp16:
      return DataType::fp16;
    case Precision::fp32:
      return DataType::fp32;
    case Precision::tf32:
      return DataType::tf32;
  }
  assert(false && "unknown precision");
  return DataType::fp32;
}

DataType weight_type(Precision precision) {
  switch (precision) {
    case Precision::fp8:
      return DataType::fp8_block;
    case Precision::fp8_tensor:
      return DataType::bf16;  // cast where it is used
    default:
      return activation_type(precision);
  }
}

}  // namespace plumbline::model
