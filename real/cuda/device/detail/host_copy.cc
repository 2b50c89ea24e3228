#include "real/cuda/device/detail/host_copy.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "real/cuda/kernels/arithmetic.h"
#include "real/executor/parallel.h"

namespace plumbline::real::cuda {
namespace {

constexpr std::int64_t worth_a_thread = 1 << 20;  // elements: they take some hundred us, a thread's start takes some 20

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

// Returns the stored form of a value: times the reciprocal of its scale, as kernels compute it, for the same bits.
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

// The elements that are converted at a time: the same memory serves all tensors, without new page faults.
constexpr std::int64_t piece_elements = std::int64_t{1} << 23;

Status start_copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (bytes == 0) return {};
  PLUMBLINE_TRY(outcome(cudaMemcpyAsync(to, from, bytes, kind, stream), "copying a tensor"));
  return outcome(cudaStreamSynchronize(stream), "copying a tensor");
}

std::size_t bytes_of(const TensorView& tensor) {
  return static_cast<std::size_t>(data_bytes(tensor.format, tensor.elements()));
}

// A tensor's bytes in host memory, laid out as on the device.
struct HostImage {
  std::vector<std::byte> values;
  std::vector<float> scales;
  TensorView view;

  explicit HostImage(const TensorView& tensor)
      : values(bytes_of(tensor)),
        scales(static_cast<std::size_t>(scale_count(tensor.format, tensor.rows, tensor.columns, tensor.matrix_rows))),
        view(tensor) {
    view.data = values.data();
    view.scales = scales.data();
  }
  std::size_t scale_bytes() const { return scales.size() * sizeof(float); }
};

// Calls body(image, memory on the device, elements) for each piece. A tensor with scales is one piece, any other as
// many as are needed.
template <class Element, class Body>
Status by_pieces(const TensorView& tensor, std::span<Element> values, Body body) {
  if (scale_count(tensor.format, tensor.rows, tensor.columns, tensor.matrix_rows) > 0) {
    HostImage image(tensor);
    return body(image, tensor, values);
  }
  TensorView piece = tensor;
  piece.columns = 1;
  piece.rows = std::min(tensor.elements(), piece_elements);
  HostImage image(piece);
  for (std::int64_t first = 0; first < tensor.elements(); first += piece_elements) {
    piece.rows = image.view.rows = std::min(tensor.elements() - first, piece_elements);
    piece.data = static_cast<std::byte*>(tensor.data) + data_bytes(tensor.format, first);
    const auto part = values.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(piece.rows));
    PLUMBLINE_TRY(body(image, piece, part));
  }
  return {};
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

Status upload(std::span<const float> values, const TensorView& to, cudaStream_t stream) {
  if (to.format == Format::fp32)
    return start_copy(to.data, values.data(), values.size_bytes(), cudaMemcpyHostToDevice, stream);
  return by_pieces(to, values, [stream](HostImage& image, const TensorView& piece, std::span<const float> part) {
    encode(part, image.view);
    PLUMBLINE_TRY(start_copy(piece.data, image.values.data(), bytes_of(piece), cudaMemcpyHostToDevice, stream));
    return start_copy(piece.scales, image.scales.data(), image.scale_bytes(), cudaMemcpyHostToDevice, stream);
  });
}

Status download(const TensorView& from, std::span<float> values, cudaStream_t stream) {
  if (from.format == Format::fp32)
    return start_copy(values.data(), from.data, values.size_bytes(), cudaMemcpyDeviceToHost, stream);
  return by_pieces(from, values, [stream](HostImage& image, const TensorView& piece, std::span<float> part) -> Status {
    PLUMBLINE_TRY(start_copy(image.values.data(), piece.data, bytes_of(piece), cudaMemcpyDeviceToHost, stream));
    PLUMBLINE_TRY(start_copy(image.scales.data(), piece.scales, image.scale_bytes(), cudaMemcpyDeviceToHost, stream));
    decode(image.view, part);
    return {};
  });
}

}  // namespace plumbline::real::cuda
