// The interface between the executor of a step program and the machine that executes kernels. A stream runs its work in
// launch order; only events order work of different streams. Launches may return before anything has run.
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

// Memory of one tensor on a device. A tensor [a, b, c] is stored as a*b rows of c columns, [n] as n rows of 1 column.
class Buffer {
 public:
  virtual ~Buffer() = default;
};
using BufferPointer = std::unique_ptr<Buffer>;

// The rows and columns of a tensor's expected shape, and the rows of each of its matrices: [e, n, m] has e * n rows of
// m columns, in matrices of n rows.
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
// Returns whether routing decides the shape, so that a step may need more rows than expected.
inline bool is_routed(const model::Tensor& tensor) {
  return std::any_of(tensor.shape.begin(), tensor.shape.end(), [](const model::Dimension& dimension) {
    return dimension.extent != model::Extent::fixed && dimension.extent != model::Extent::tokens;
  });
}

// Numbers that change from step to step and are not part of a graph.
struct StepNumbers {
  std::int64_t step = 1;      // from 1, for the optimizer's bias correction
  double loss_scale = 1;      // factor of the loss gradients; includes the division by the number of micro-batches and
                              // data-parallel ranks
  double learning_rate = -1;  // negative: the graph's
  // Of tokens that are sampled: 0 takes the likeliest one. A seed and the number of a request over all ranks decide.
  double temperature = 0;
  std::uint64_t seed = 0;
  std::int64_t first_request = 0;
};

// One operator and its buffers, in the order of the operator's reads and writes.
struct Kernel {
  const model::Graph* graph = nullptr;
  const model::Operator* op = nullptr;
  std::vector<Buffer*> reads, writes;
  std::int32_t part = 0, parts = 1;  // share of the work where streams divide an operator: groups of a grouped GEMM
  std::int32_t tensor_rank = 0;      // which part of a divided vocabulary the rank holds
  std::vector<double> weights;       // sum_of_squares: weight of each read, 1 / number of ranks that hold the same data
  StepNumbers numbers;
  std::uint32_t label = 0;  // label of its record
};

struct KernelRecord {
  std::uint32_t label = 0;
  model::Stream stream = model::Stream::compute;
  double start = 0, end = 0;  // seconds on the device's clock
};

using Event = std::uint64_t;

// The streams of a device, each with cores or a hardware queue of its own. Several streams of the model share one;
// their work runs in launch order.
enum class Queue : std::uint8_t { compute, communication, collective, optimizer };
constexpr std::size_t queue_kinds = 4;
inline Queue queue_of(model::Stream stream) {
  switch (stream) {
    case model::Stream::communication:
      return Queue::communication;
    case model::Stream::collective:
      return Queue::collective;
    case model::Stream::optimizer:
      return Queue::optimizer;
    default:
      return Queue::compute;
  }
}

class Device {
 public:
  virtual ~Device() = default;

  // Returns whether the device's operators read and write tensors of that format.
  virtual bool executes(model::DataType type) const {
    return type == model::DataType::fp32 || type == model::DataType::bf16 || type == model::DataType::fp16;
  }

  // Returns zeroed memory for a tensor of its expected shape; operators whose shape routing decides resize it.
  virtual BufferPointer allocate(const model::Tensor& tensor) = 0;
  // Returns a view of the tensor's elements in `flat` ([n], 1 column) from `first` on; `flat` must outlive it.
  virtual BufferPointer view(Buffer& flat, std::int64_t first, const model::Tensor& tensor) = 0;
  // write(), read() and copy() wait for all streams. write() sets all elements, rounded to the buffer's format.
  virtual void write(Buffer& buffer, std::span<const float> values) = 0;
  virtual std::vector<float> read(const Buffer& buffer) = 0;
  // Copies `elements` elements of `flat` from `first` on to `to`. Devices with their own memory override it.
  virtual void copy(const Buffer& flat, std::int64_t first, std::int64_t elements, Buffer& to) {
    const std::vector<float> all = read(flat);
    write(to, std::span(all).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(elements)));
  }

  // Sets all elements to 0, as a kernel with that label.
  virtual void clear(model::Stream stream, Buffer& buffer, std::uint32_t label) = 0;
  // Returns whether streams run concurrently. Where they do not, a collective blocks the rank until the others join it,
  // so everything that they wait for must be launched before it.
  virtual bool concurrent() const = 0;
  virtual void launch(model::Stream stream, const Kernel& kernel) = 0;
  // Returns an event that completes when all work launched on the stream so far has ended.
  virtual Event record(model::Stream stream) = 0;
  // Makes all later work of the stream start after the event.
  virtual void wait(model::Stream stream, Event event) = 0;
  // Waits for all streams. Returns the first error of a kernel or message, after which the device cannot be used.
  virtual model::Result<void> synchronize() = 0;

  // Returns the most bytes in use so far: of tensors in their formats or, where the driver states it, of the device. 0:
  // unknown.
  virtual double memory_bytes() { return 0; }

  // Returns the device's clock, in seconds; of virtual clocks, the latest of all streams.
  virtual double now() = 0;
  // Returns what has run since the last call. Requires synchronize().
  virtual std::vector<KernelRecord> take_records() = 0;
};

}  // namespace plumbline::real
