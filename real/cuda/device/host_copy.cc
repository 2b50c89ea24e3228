#include "real/cuda/device/host_copy.h"

#include <cstddef>
#include <vector>

#include "real/cuda/device/conversion.h"

namespace plumbline::real::cuda {

namespace {

// A tensor's bytes in the host's memory, laid out as on the device.
struct HostImage {
  std::vector<std::byte> values;
  std::vector<float> scales;
  TensorView view;

  explicit HostImage(const TensorView& tensor)
      : values(static_cast<std::size_t>(data_bytes(tensor.format, tensor.elements()))),
        scales(static_cast<std::size_t>(scale_count(tensor.format, tensor.rows, tensor.columns, tensor.matrix_rows))),
        view(tensor) {
    view.data = values.data();
    view.scales = scales.data();
  }
  std::size_t scale_bytes() const { return scales.size() * sizeof(float); }
};

Status copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (bytes == 0) return {};
  PLUMBLINE_TRY(outcome(cudaMemcpyAsync(to, from, bytes, kind, stream), "copying a tensor"));
  return outcome(cudaStreamSynchronize(stream), "copying a tensor");
}

}  // namespace

Status upload(std::span<const float> values, const TensorView& to, cudaStream_t stream) {
  HostImage image(to);
  encode(values, image.view);
  PLUMBLINE_TRY(copy(to.data, image.values.data(), image.values.size(), cudaMemcpyHostToDevice, stream));
  return copy(to.scales, image.scales.data(), image.scale_bytes(), cudaMemcpyHostToDevice, stream);
}

Status download(const TensorView& from, std::span<float> values, cudaStream_t stream) {
  HostImage image(from);
  PLUMBLINE_TRY(copy(image.values.data(), from.data, image.values.size(), cudaMemcpyDeviceToHost, stream));
  PLUMBLINE_TRY(copy(image.scales.data(), from.scales, image.scale_bytes(), cudaMemcpyDeviceToHost, stream));
  decode(image.view, values);
  return {};
}

}  // namespace plumbline::real::cuda
