// What executes kernels: the interface between the executor of a step program and a machine. Streams run what was
// launched on them in order; between streams only events order. Launches may return before anything has run.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "model/base/data_type.h"
#include "model/base/error.h"
#include "model/graph/graph.h"
#include "model/result/timeline.h"

namespace plumbline::real {

// Memory of one tensor on a device. A tensor [a, b, c] lies as a*b rows of c columns, [n] as n rows of one.
class Buffer {
 public:
  virtual ~Buffer() = default;
};
using BufferPointer = std::unique_ptr<Buffer>;

// Rows and columns of a tensor's expected shape, and the rows of each of its matrices: [e, n, m] is e * n rows of m
// columns in matrices of n rows.
struct TensorShape {
  std::int64_t rows = 1, columns = 1, matrix_rows = 1;
};
inline TensorShape matrix_shape(const model::Tensor& tensor) {
  TensorShape shape;
  if (tensor.shape.empty()) return shape;
  const bool vector = tensor.shape.size() == 1;
  if (!vector) shape.columns = tensor.shape.back().size;
  const std::size_t leading = vector ? 1 : tensor.shape.size() - 1;
  for (std::size_t i = 0; i < leading; ++i) shape.rows *= tensor.shape[i].size;
  shape.matrix_rows = tensor.shape[leading - 1].size;
  return shape;
}
// Whether routing decides the shape, so that a step may need more than the expected one.
inline bool is_routed(const model::Tensor& tensor) {
  return std::any_of(tensor.shape.begin(), tensor.shape.end(), [](const model::Dimension& dimension) {
    return dimension.extent != model::Extent::fixed && dimension.extent != model::Extent::tokens;
  });
}

// What changes from step to step and stands in no graph.
struct StepNumbers {
  std::int64_t step = 1;      // from 1, for the optimizer's bias correction
  double loss_scale = 1;      // by which gradients of the loss are multiplied; the division by the number of
                              // micro-batches and data-parallel ranks is part of it
  double learning_rate = -1;  // negative: the graph's
};

// One operator and the memory it works on, in the order of the operator's reads and writes.
struct Kernel {
  const model::Graph* graph = nullptr;
  const model::Operator* op = nullptr;
  std::vector<Buffer*> reads, writes;
  std::int32_t part = 0, parts = 1;  // of its work, where streams share an operator: groups of a grouped product
  std::int32_t tensor_rank = 0;      // which part of a divided vocabulary the rank holds
  std::vector<double> weights;       // sum_of_squares: of each read (ranks that hold the same count once)
  StepNumbers numbers;
  std::uint32_t label = 0;  // by which its record is found
};

struct KernelRecord {
  std::uint32_t label = 0;
  model::Stream stream = model::Stream::compute;
  double start = 0, end = 0;  // seconds on the device's clock
};

using Event = std::uint64_t;

class Device {
 public:
  virtual ~Device() = default;

  // Whether its operators read and write tensors of that format.
  virtual bool executes(model::DataType type) const {
    return type == model::DataType::fp32 || type == model::DataType::bf16 || type == model::DataType::fp16;
  }

  // Memory for a tensor of its expected shape, zero; operators whose shape routing decides make it fit.
  virtual BufferPointer allocate(const model::Tensor& tensor) = 0;
  // The tensor's elements in `flat` ([n], 1 column) from `first` on; flat must outlive it.
  virtual BufferPointer view(Buffer& flat, std::int64_t first, const model::Tensor& tensor) = 0;
  // Wait until all streams are idle. write() sets all elements, rounded to the buffer's format.
  virtual void write(Buffer& buffer, std::span<const float> values) = 0;
  virtual std::vector<float> read(const Buffer& buffer) = 0;
  // Writes to `to` its `elements` from `first` on in `flat`. Devices whose memory is their own do it there.
  virtual void copy(const Buffer& flat, std::int64_t first, std::int64_t elements, Buffer& to) {
    const std::vector<float> all = read(flat);
    write(to, std::span(all).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(elements)));
  }

  // Sets all elements to 0, as a kernel of that label.
  virtual void clear(model::Stream stream, Buffer& buffer, std::uint32_t label) = 0;
  // Whether streams run at the same time. Where they do not, a collective that other ranks join later than this one
  // must not be launched before all else that they wait for.
  virtual bool concurrent() const = 0;
  virtual void launch(model::Stream stream, const Kernel& kernel) = 0;
  // Ends when all that was launched on the stream so far has ended.
  virtual Event record(model::Stream stream) = 0;
  // What is launched on the stream from now on starts after the event.
  virtual void wait(model::Stream stream, Event event) = 0;
  // Waits for all streams. The error of the first kernel or message that failed: the device is of no use then.
  virtual model::Result<void> synchronize() = 0;

  // The device's clock, in seconds; of a virtual clock the latest of its streams.
  virtual double now() = 0;
  // What has run since the last call. Requires synchronise().
  virtual std::vector<KernelRecord> take_records() = 0;
};

}  // namespace plumbline::real
