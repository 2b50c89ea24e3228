#include "real/cuda/device/buffer.h"

#include <cstddef>

namespace plumbline::real::cuda {
namespace {

// The alignment of cudaMalloc.
constexpr std::int64_t scale_alignment = 256;

std::int64_t aligned_values(std::int64_t bytes) {
  return (bytes + scale_alignment - 1) / scale_alignment * scale_alignment;
}

// The host waits for the memset, because the device's streams do not.
Status zero(void* data, std::int64_t bytes) {
  PLUMBLINE_TRY(outcome(cudaMemsetAsync(data, 0, static_cast<std::size_t>(bytes), nullptr), "clearing memory"));
  return outcome(cudaStreamSynchronize(nullptr), "clearing memory");
}

}  // namespace

std::optional<Format> format_of(model::DataType type) {
  switch (type) {
    case model::DataType::fp32:
    case model::DataType::tf32:
      return Format::fp32;
    case model::DataType::bf16:
      return Format::bf16;
    case model::DataType::fp16:
      return Format::fp16;
    case model::DataType::e5m6:
      return Format::e5m6;
    case model::DataType::fp8_tile:
      return Format::fp8_tile;
    case model::DataType::fp8_block:
      return Format::fp8_block;
    case model::DataType::fp8:
      return Format::fp8_tensor;
    case model::DataType::uint8:
      return Format::uint8;
    case model::DataType::int32:
      return Format::int32;
    case model::DataType::int64:
      return Format::int64;
    case model::DataType::mxfp8:
    case model::DataType::nvfp4:
    case model::DataType::mxfp4:
    case model::DataType::int6:
    case model::DataType::nf4:
      return std::nullopt;
  }
  return std::nullopt;
}

CudaBuffer::CudaBuffer(Format format, std::int64_t rows, std::int64_t columns, std::int64_t matrix_rows)
    : format_(format), rows_(rows), columns_(columns), matrix_rows_(matrix_rows == rows ? 0 : matrix_rows) {}

CudaBuffer::CudaBuffer(void* data, Format format, std::int64_t rows, std::int64_t columns)
    : format_(format), rows_(rows), columns_(columns), viewed_(data) {}

std::int64_t CudaBuffer::matrix_rows_of(std::int64_t rows) const { return matrix_rows_ > 0 ? matrix_rows_ : rows; }

std::int64_t CudaBuffer::bytes_of(std::int64_t rows, std::int64_t columns) const {
  const std::int64_t scales = scale_count(format_, rows, columns, matrix_rows_of(rows));
  const std::int64_t values = data_bytes(format_, rows * columns);
  return scales > 0 ? aligned_values(values) + scales * static_cast<std::int64_t>(sizeof(float)) : values;
}

Status CudaBuffer::allocate(std::int64_t capacity_rows) {
  const std::int64_t bytes = bytes_of(capacity_rows, columns_);
  PLUMBLINE_TRY(memory_.allocate(bytes));
  return zero(memory_.as<void>(), bytes);
}

TensorView CudaBuffer::view() const {
  TensorView view;
  view.data = viewed_ != nullptr ? viewed_ : memory_.as<void>();
  view.format = format_;
  view.rows = rows_;
  view.columns = columns_;
  view.matrix_rows = matrix_rows_of(rows_);
  if (viewed_ == nullptr && view.data != nullptr && scale_count(format_, rows_, columns_, view.matrix_rows) > 0)
    view.scales = reinterpret_cast<float*>(memory_.as<std::byte>() + aligned_values(data_bytes(format_, elements())));
  return view;
}

Status CudaBuffer::resize(std::int64_t rows, std::int64_t columns) {
  if (viewed_ != nullptr && rows * columns > elements()) return {"a view cannot grow"};
  const bool fits = viewed_ != nullptr || bytes_of(rows, columns) <= memory_.bytes();
  rows_ = rows;
  columns_ = columns;
  if (fits) return {};
  // Half as much again avoids a reallocation in the next step.
  const std::int64_t bytes = bytes_of(rows + rows / 2, columns);
  PLUMBLINE_TRY(memory_.allocate(bytes));
  return zero(memory_.as<void>(), bytes);
}

}  // namespace plumbline::real::cuda
