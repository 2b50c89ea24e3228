#include "real/cuda/device/detail/parameters.h"

#include <cstddef>
#include <utility>

#include "real/cuda/kernels/kernels.h"

namespace plumbline::real::cuda {
namespace {

constexpr std::uintptr_t vector_bytes = 16;  // of one access of a kernel
constexpr std::int64_t vector_elements = 8;  // of them in BF16

Status refuse(const model::Tensor& tensor, const char* why) { return {"parameter " + tensor.name + " " + why}; }

}  // namespace

std::optional<Format> held_format(const model::Tensor& tensor) {
  const std::optional<Format> format = format_of(tensor.type);
  return format == Format::fp8_block && tensor.shape.size() == 1 ? Format::bf16 : format;
}

Status make_view(CudaBuffer& flat, std::int64_t first, const model::Tensor& tensor, std::unique_ptr<CudaBuffer>& view) {
  const TensorShape shape = matrix_shape(tensor);
  const Format format = format_of(tensor.type).value_or(flat.format());
  if (first + shape.rows * shape.columns > flat.elements()) return refuse(tensor, "ends beyond its unit's memory");
  std::byte* const data = static_cast<std::byte*>(flat.view().data) + data_bytes(flat.format(), first);
  if (reinterpret_cast<std::uintptr_t>(data) % vector_bytes != 0)
    return refuse(tensor, "begins within a vector of 16 bytes: sizes that are no multiples of 8 are not executed");
  auto stored = std::make_unique<CudaBuffer>(data, flat.format(), shape.rows, shape.columns);
  if (format == flat.format() && flat.view().scales == nullptr) {
    view = std::move(stored);
    return {};
  }
  if (format != Format::fp8_block || flat.format() != Format::bf16)
    return refuse(tensor, "has another format than its unit's memory");
  if (shape.columns % vector_elements != 0) return refuse(tensor, "has columns that are no multiple of 8");
  view = std::make_unique<CudaBuffer>(format, shape.rows, shape.columns, shape.matrix_rows);
  PLUMBLINE_TRY(view->allocate(shape.rows));
  view->source = {std::move(stored), &flat, flat.version()};
  return {};
}

bool is_behind(const CudaBuffer& buffer) {
  return buffer.source && buffer.source->version != buffer.source->flat->version();
}

Status refresh(CudaBuffer& buffer, cudaStream_t stream) {
  PLUMBLINE_TRY(outcome(cast_blocks(buffer.source->stored->view(), buffer.view(), stream), "casting a parameter"));
  buffer.source->version = buffer.source->flat->version();
  return {};
}

}  // namespace plumbline::real::cuda
