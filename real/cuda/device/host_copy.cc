#include "real/cuda/device/host_copy.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "real/cuda/device/conversion.h"

namespace plumbline::real::cuda {

namespace {

// Elements that are converted at a time: so much memory stays warm, and costs no page faults from tensor to tensor.
constexpr std::int64_t piece_elements = std::int64_t{1} << 23;

Status copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (bytes == 0) return {};
  PLUMBLINE_TRY(outcome(cudaMemcpyAsync(to, from, bytes, kind, stream), "copying a tensor"));
  return outcome(cudaStreamSynchronize(stream), "copying a tensor");
}

std::size_t bytes_of(const TensorView& tensor) {
  return static_cast<std::size_t>(data_bytes(tensor.format, tensor.elements()));
}

// A tensor's bytes in the host's memory, laid out as on the device.
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

// A tensor with scales is one piece, any other as many as it takes: calls body(image, memory on the device, elements).
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

Status upload(std::span<const float> values, const TensorView& to, cudaStream_t stream) {
  if (to.format == Format::fp32)
    return copy(to.data, values.data(), values.size_bytes(), cudaMemcpyHostToDevice, stream);
  return by_pieces(to, values, [stream](HostImage& image, const TensorView& piece, std::span<const float> part) {
    encode(part, image.view);
    PLUMBLINE_TRY(copy(piece.data, image.values.data(), bytes_of(piece), cudaMemcpyHostToDevice, stream));
    return copy(piece.scales, image.scales.data(), image.scale_bytes(), cudaMemcpyHostToDevice, stream);
  });
}

Status download(const TensorView& from, std::span<float> values, cudaStream_t stream) {
  if (from.format == Format::fp32)
    return copy(values.data(), from.data, values.size_bytes(), cudaMemcpyDeviceToHost, stream);
  return by_pieces(from, values, [stream](HostImage& image, const TensorView& piece, std::span<float> part) -> Status {
    PLUMBLINE_TRY(copy(image.values.data(), piece.data, bytes_of(piece), cudaMemcpyDeviceToHost, stream));
    PLUMBLINE_TRY(copy(image.scales.data(), piece.scales, image.scale_bytes(), cudaMemcpyDeviceToHost, stream));
    decode(image.view, part);
    return {};
  });
}

}  // namespace plumbline::real::cuda
