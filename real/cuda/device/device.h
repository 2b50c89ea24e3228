// A GPU as a device: the graph's streams are CUDA streams, and kernels are timed with events. The launching thread runs
// ahead of the GPU, except where routing decides shapes (real/cuda/device/buffer.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "real/cuda/device/buffer.h"
#include "real/cuda/device/machine.h"
#include "real/cuda/status.h"
#include "real/executor/device.h"

namespace plumbline::real::cuda {

struct DeviceOptions {
  int ordinal = 0;
  std::vector<std::string> library_folders;  // of --lib-dir; PLUMBLINE_LIBDIR and the default folders are added
  int target_sms = 0;                        // SM count given to libraries on the compute stream; 0: all
};

class CudaDevice final : public Device {
 public:
  // Infeasible if there is no driver, no device or no cuBLASLt.
  static model::Result<std::unique_ptr<CudaDevice>> open(const DeviceOptions& options);
  ~CudaDevice() override;

  // FP8 with one scale per tensor is not executed: the scale would be needed before the first element is written.
  bool executes(model::DataType type) const override {
    return type != model::DataType::fp8 && format_of(type).has_value();
  }
  BufferPointer allocate(const model::Tensor& tensor) override;
  BufferPointer view(Buffer& flat, std::int64_t first, const model::Tensor& tensor) override;
  void write(Buffer& buffer, std::span<const float> values) override;
  std::vector<float> read(const Buffer& buffer) override;
  void copy(const Buffer& flat, std::int64_t first, std::int64_t elements, Buffer& to) override;
  void clear(model::Stream stream, Buffer& buffer, std::uint32_t label) override;
  bool concurrent() const override { return true; }
  void launch(model::Stream stream, const Kernel& kernel) override;
  Event record(model::Stream stream) override;
  void wait(model::Stream stream, Event event) override;
  model::Result<void> synchronize() override;
  double memory_bytes() override;
  double now() override;
  std::vector<KernelRecord> take_records() override;

  Machine& machine();
  // Enqueues what a communicator launches on the given stream, between two events that become the label's record. A
  // failure stops all that follows; synchronize() returns it. The caller marks the buffers that it writes as changed
  // (real/cuda/device/buffer.h).
  void enqueue(model::Stream stream, std::uint32_t label, const std::function<Status(cudaStream_t)>& launch);
  void fail(const Status& status);

 private:
  struct State;
  explicit CudaDevice(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace plumbline::real::cuda
