// The host as a device: streams are worker threads with their own cores, or run inline on the calling thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "real/executor/device.h"
#include "real/host/clock.h"

namespace plumbline::real::host {

// Returns a kernel's duration on a stream, in seconds.
using KernelSeconds = std::function<double(model::Stream stream, const Kernel& kernel)>;

// Work of a stream that is no kernel: first start(), then finish(), which may wait for other ranks. An inline stream
// defers finish() until something waits for it, so that transfers overlap what runs in between.
struct StreamWork {
  std::function<void(StreamClock&)> start, finish;
  std::uint32_t label = 0;
};

struct DeviceOptions {
  ClockKind clock = ClockKind::wall;
  SimulatedTime simulated;       // of ClockKind::simulated
  KernelSeconds kernel_seconds;  // of ClockKind::profile; of ClockKind::simulated where computation is not measured
  bool threads = true;           // else inline
  int compute_cores = 1;
  int communication_cores = 1;  // of each communication stream
  model::DataType accumulation = model::DataType::fp32;
};

class HostDevice final : public Device {
 public:
  explicit HostDevice(const DeviceOptions& options);
  ~HostDevice() override;

  BufferPointer allocate(const model::Tensor& tensor) override;
  BufferPointer view(Buffer& flat, std::int64_t first, const model::Tensor& tensor) override;
  void write(Buffer& buffer, std::span<const float> values) override;
  std::vector<float> read(const Buffer& buffer) override;
  void clear(model::Stream stream, Buffer& buffer, std::uint32_t label) override;
  bool concurrent() const override;
  void launch(model::Stream stream, const Kernel& kernel) override;
  Event record(model::Stream stream) override;
  void wait(model::Stream stream, Event event) override;
  model::Result<void> synchronize() override;
  double memory_bytes() override;
  double now() override;
  std::vector<KernelRecord> take_records() override;

  void enqueue(model::Stream stream, StreamWork work);
  // Sets the function that the first failure of a kernel or work calls, on its stream. Call it before any launch.
  void on_failure(std::function<void(const std::string& reason)> listener);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace plumbline::real::host
