// The clock of a stream.
//   wall: the machine's clock.
//   cpu: a virtual clock that advances by the stream's CPU time and waits, whatever the other load of the machine.
//   profile: a virtual clock that advances by the kernel times of a profile and by the stream's waits.
//   simulated: the clock of a simulated MPI, which counts messages, and computation unless a profile gives its time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "real/executor/device.h"

namespace plumbline::real::host {

enum class ClockKind : std::uint8_t { wall, cpu, profile, simulated };
std::string_view to_string(ClockKind kind);
// The clocks that a user may ask for: those that measure, and those of a run.
inline constexpr ClockKind measuring_clocks[] = {ClockKind::wall, ClockKind::cpu};
inline constexpr ClockKind run_clocks[] = {ClockKind::wall, ClockKind::cpu, ClockKind::profile};
// Returns the clock of that name among `known`; input error otherwise.
model::Result<ClockKind> parse_clock(std::string_view word, std::span<const ClockKind> known);

// The functions of a simulated MPI that a clock uses.
struct SimulatedTime {
  double (*now)() = nullptr;                  // seconds
  void (*compute)(double seconds) = nullptr;  // lets the calling rank compute for that long
};

class StreamClock {
 public:
  explicit StreamClock(ClockKind kind, SimulatedTime simulated = {}) : kind_(kind), simulated_(simulated) {}

  // Returns the time in seconds; call it on the stream's own thread.
  double now();
  // Advances a virtual clock to at least `time`, when an awaited event happened. Other clocks have already passed it.
  void advance_to(double time);
  // Advances by `seconds` of computation from a profile; clocks that measure ignore it.
  void spend(double seconds);
  // Makes the calling thread the one that runs the stream from now on.
  void enter_thread();

 private:
  ClockKind kind_;
  SimulatedTime simulated_;
  double base_ = 0, mark_ = 0;  // virtual time; for cpu, the time at which the thread had used `mark_` seconds
};

// The host as a device: streams are worker threads with their own cores, or run inline on the calling thread.

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
