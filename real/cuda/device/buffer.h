// Memory of a tensor on a GPU, in the tensor's own format.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "model/graph/graph.h"
#include "real/cuda/memory.h"
#include "real/cuda/status.h"
#include "real/cuda/tensor_view.h"
#include "real/executor/device.h"

namespace plumbline::real::cuda {

// Returns the format in which a tensor is held; nothing for one that is not executed on a GPU.
std::optional<Format> format_of(model::DataType type);

// Which tokens went to which ranks, and how many came. dispatch stores it with the indices; combine and the gradients
// read it there. It is defined in real/cuda/comm/dispatch_layout.h.
struct DispatchLayout;

// The rows of each token, stored with a row map (real/cuda/operators/detail/row_positions.h).
struct RowPositions;

// The host has all shapes when it launches a kernel. Where routing decides them, the launch of the dispatch waits for
// the counts, as DeepEP's does.
class CudaBuffer final : public Buffer {
 public:
  CudaBuffer(Format format, std::int64_t rows, std::int64_t columns, std::int64_t matrix_rows);
  // Views memory that another object owns, in a format without scales.
  CudaBuffer(void* data, Format format, std::int64_t rows, std::int64_t columns);
  CudaBuffer(const CudaBuffer&) = delete;
  CudaBuffer& operator=(const CudaBuffer&) = delete;

  // Allocates `capacity_rows` rows; all bytes are 0 when it returns. Scales lie behind the values.
  Status allocate(std::int64_t capacity_rows);

  Format format() const { return format_; }
  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  std::int64_t elements() const { return rows_ * columns_; }
  TensorView view() const;
  template <class Element>
  Element* data() const {
    return static_cast<Element*>(view().data);
  }
  // Changes the number of rows where routing decides it; contents are lost. If the capacity is too small, it waits for
  // the device and allocates anew.
  Status resize(std::int64_t rows) { return resize(rows, columns_); }
  Status resize(std::int64_t rows, std::int64_t columns);

  // Contents that the host has without asking the device: the offsets of experts [experts + 1].
  std::vector<std::int64_t> known;
  std::shared_ptr<const DispatchLayout> dispatch_layout;
  std::shared_ptr<RowPositions> positions;

  // FP8 parameters are stored in BF16, where optimizers and gathers write them. The FP8 values that GEMMs read are made
  // from it after each change (real/cuda/device/detail/parameters.h).
  void mark_changed() { ++version_; }
  struct Source {
    std::unique_ptr<CudaBuffer> stored;  // the same elements in BF16
    const CudaBuffer* flat = nullptr;    // owns the memory of `stored`
    std::uint64_t version = 0;           // version of `flat` from which the values were made
  };
  std::optional<Source> source;
  std::uint64_t version() const { return version_; }

 private:
  std::int64_t bytes_of(std::int64_t rows, std::int64_t columns) const;
  std::int64_t matrix_rows_of(std::int64_t rows) const;

  Format format_;
  std::int64_t rows_ = 0, columns_ = 0;
  std::int64_t matrix_rows_ = 0;  // 0: all rows are one matrix
  DeviceMemory memory_;
  void* viewed_ = nullptr;
  std::uint64_t version_ = 0;
};

}  // namespace plumbline::real::cuda
