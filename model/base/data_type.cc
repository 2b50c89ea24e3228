#include "model/base/data_type.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace plumbline::model {
namespace {

constexpr double scale_bytes = 4;  // one FP32 scale per tile or block
constexpr double tile_elements = 128;
constexpr double block_elements = 128 * 128;

struct TypeRow {
  std::string_view name;
  double bytes;  // bytes of an element
};
constexpr TypeRow types[] = {
    // The entries are in the order of DataType.
    {"fp32", 4},
    {"tf32", 4},
    {"bf16", 2},
    {"fp16", 2},
    {"e5m6", 1.5 + scale_bytes / tile_elements},
    {"fp8_tile", 1 + scale_bytes / tile_elements},
    {"fp8_block", 1 + scale_bytes / block_elements},
    {"fp8", 1},
    {"uint8", 1},
    {"int32", 4},
    {"int64", 8},
    {"mxfp8", 1 + 1.0 / 32},
    {"nvfp4", 0.5 + 1.0 / 16},
    {"mxfp4", 0.5 + 1.0 / 32},
    {"int6", 0.75},
    {"nf4", 0.5 + 1.0 / 64 + scale_bytes / (64 * 256)},
};

struct PrecisionRow {
  std::string_view name;
  DataType activation, weight;
};
constexpr PrecisionRow precisions[] = {
    // The entries are in the order of Precision.
    {"fp8", DataType::fp8_tile, DataType::fp8_block},
    {"fp8_tensor", DataType::fp8, DataType::bf16},  // weights are cast where they are used
    {"bf16", DataType::bf16, DataType::bf16},
    {"fp16", DataType::fp16, DataType::fp16},
    {"fp32", DataType::fp32, DataType::fp32},
    {"tf32", DataType::tf32, DataType::tf32},
    {"mxfp8", DataType::mxfp8, DataType::bf16},
    {"nvfp4", DataType::nvfp4, DataType::bf16},
    {"mxfp4", DataType::mxfp4, DataType::bf16},
};

const PrecisionRow& row_of(Precision precision) { return precisions[static_cast<std::size_t>(precision)]; }

}  // namespace

double bytes_per_element(DataType type) { return types[static_cast<std::size_t>(type)].bytes; }
std::string_view quantized_name(DataType type) {
  const bool fp8 = type == DataType::fp8_tile || type == DataType::fp8_block || type == DataType::fp8;
  return fp8 ? to_string(DataType::fp8) : to_string(type);
}
std::string_view to_string(DataType type) { return types[static_cast<std::size_t>(type)].name; }
std::string_view to_string(Precision precision) { return row_of(precision).name; }
DataType activation_type(Precision precision) { return row_of(precision).activation; }
DataType weight_type(Precision precision) { return row_of(precision).weight; }
DataType stored_weight(Precision precision) {
  return is_quantized(weight_type(precision)) ? weight_type(precision) : activation_type(precision);
}

std::vector<std::string> precision_words() {
  std::vector<std::string> words;
  for (const PrecisionRow& row : precisions) words.emplace_back(row.name);
  return words;
}

std::string precision_names() { return fmt::format("{}", fmt::join(precision_words(), ", ")); }

Result<Precision> parse_precision(std::string_view text) {
  const auto* row = std::ranges::find(precisions, text, &PrecisionRow::name);
  if (row != std::end(precisions)) return static_cast<Precision>(row - precisions);
  return wrong_input("", fmt::format("unknown precision '{}'", text),
                     did_you_mean_before(text, precision_words(), "one of " + precision_names()));
}

}  // namespace plumbline::model
