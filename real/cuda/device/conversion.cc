#include "real/cuda/device/conversion.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "real/cuda/kernels/arithmetic.h"
#include "real/executor/parallel.h"

namespace plumbline::real::cuda {

namespace {

constexpr std::int64_t worth_a_thread = 1 << 20;  // elements: some hundred us, a thread starts in some 20

template <class Element, class Convert>
void encode_all(std::span<const float> values, const TensorView& tensor, Convert convert) {
  auto* const to = static_cast<Element*>(tensor.data);
  in_parallel(std::ssize(values), worth_a_thread, [&](std::int64_t begin, std::int64_t end) {
    std::transform(values.begin() + begin, values.begin() + end, to + begin, convert);
  });
}

template <class Element, class Convert>
void decode_all(const TensorView& tensor, std::span<float> values, Convert convert) {
  const auto* const from = static_cast<const Element*>(tensor.data);
  in_parallel(std::ssize(values), worth_a_thread, [&](std::int64_t begin, std::int64_t end) {
    std::transform(from + begin, from + end, values.begin() + begin, convert);
  });
}

template <class Whole>
Whole nearest(float value) {
  constexpr auto least = static_cast<double>(std::numeric_limits<Whole>::min());
  constexpr auto most = static_cast<double>(std::numeric_limits<Whole>::max());
  const double rounded = std::nearbyint(static_cast<double>(value));
  if (std::isnan(rounded)) return 0;
  if (rounded >= most) return std::numeric_limits<Whole>::max();
  return rounded <= least ? std::numeric_limits<Whole>::min() : static_cast<Whole>(rounded);
}

// Calls body(element, index of its scale) for all elements.
template <class Body>
void for_scaled(const TensorView& tensor, Body body) {
  std::size_t i = 0;
  for (std::int64_t row = 0; row < tensor.rows; ++row)
    for (std::int64_t column = 0; column < tensor.columns; ++column, ++i) body(i, scale_index(tensor, row, column));
}

void choose_scales(std::span<const float> values, const TensorView& tensor) {
  const std::int64_t count = scale_count(tensor.format, tensor.rows, tensor.columns, tensor.matrix_rows);
  std::fill_n(tensor.scales, count, 0.0F);
  for_scaled(tensor, [&](std::size_t i, std::int64_t scale) {
    tensor.scales[scale] = std::fmax(tensor.scales[scale], std::fabs(values[i]));
  });
  for (std::int64_t scale = 0; scale < count; ++scale)
    tensor.scales[scale] =
        tensor.format == Format::e5m6 ? e5m6_scale(tensor.scales[scale]) : block_scale(tensor.scales[scale]);
}

// What is stored of a value: times the reciprocal of its scale, as kernels reckon it, so that both give the same bits.
float scaled(float value, float scale) { return value * (1.0F / scale); }

void encode_e5m6(std::span<const float> values, const TensorView& tensor) {
  auto* const to = static_cast<std::uint8_t*>(tensor.data);
  std::uint16_t first = 0;
  for_scaled(tensor, [&](std::size_t i, std::int64_t scale) {
    const std::uint16_t code = float_to_e5m6(scaled(values[i], tensor.scales[scale]));
    if (i % 2 == 0) first = code;
    pack_e5m6(first, i % 2 == 0 ? 0 : code, to + i / 2 * 3);
  });
}

}  // namespace

void encode(std::span<const float> values, const TensorView& tensor) {
  if (scale_count(tensor.format, tensor.rows, tensor.columns, tensor.matrix_rows) > 0) choose_scales(values, tensor);
  switch (tensor.format) {
    case Format::fp32:
      std::memcpy(tensor.data, values.data(), values.size_bytes());
      return;
    case Format::bf16:
      return encode_all<std::uint16_t>(values, tensor, float_to_bf16);
    case Format::fp16:
      return encode_all<std::uint16_t>(values, tensor, float_to_fp16);
    case Format::int32:
      return encode_all<std::int32_t>(values, tensor, nearest<std::int32_t>);
    case Format::int64:
      return encode_all<std::int64_t>(values, tensor, nearest<std::int64_t>);
    case Format::uint8:
      return encode_all<std::uint8_t>(values, tensor, nearest<std::uint8_t>);
    case Format::e5m6:
      return encode_e5m6(values, tensor);
    default:
      break;
  }
  auto* const to = static_cast<std::uint8_t*>(tensor.data);
  for_scaled(tensor,
             [&](std::size_t i, std::int64_t scale) { to[i] = float_to_fp8(scaled(values[i], tensor.scales[scale])); });
}

void decode(const TensorView& tensor, std::span<float> values) {
  const auto* const bytes = static_cast<const std::uint8_t*>(tensor.data);
  switch (tensor.format) {
    case Format::fp32:
      std::memcpy(values.data(), tensor.data, values.size_bytes());
      return;
    case Format::bf16:
      return decode_all<std::uint16_t>(tensor, values, bf16_to_float);
    case Format::fp16:
      return decode_all<std::uint16_t>(tensor, values, fp16_to_float);
    case Format::int32:
      return decode_all<std::int32_t>(tensor, values, [](std::int32_t whole) { return static_cast<float>(whole); });
    case Format::int64:
      return decode_all<std::int64_t>(tensor, values, [](std::int64_t whole) { return static_cast<float>(whole); });
    case Format::uint8:
      return decode_all<std::uint8_t>(tensor, values, [](std::uint8_t whole) { return static_cast<float>(whole); });
    case Format::e5m6:
      return for_scaled(tensor, [&](std::size_t i, std::int64_t scale) {
        values[i] = e5m6_to_float(unpack_e5m6(bytes + i / 2 * 3, static_cast<int>(i % 2))) * tensor.scales[scale];
      });
    default:
      break;
  }
  for_scaled(tensor,
             [&](std::size_t i, std::int64_t scale) { values[i] = fp8_to_float(bytes[i]) * tensor.scales[scale]; });
}

}  // namespace plumbline::real::cuda
