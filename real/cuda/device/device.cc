#include "real/cuda/device/device.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <utility>

#include "model/result/timeline.h"
#include "real/cuda/device/detail/host_copy.h"
#include "real/cuda/device/detail/parameters.h"
#include "real/cuda/device_state.h"
#include "real/cuda/kernels/kernels.h"
#include "real/cuda/operators/operators.h"
#include "real/cuda/vendor/library_search.h"
#include "real/executor/infeasible.h"

namespace plumbline::real::cuda {
namespace {

// A query leaves "not ready" as the runtime's last error, which the next launch would report as its own.
bool has_happened(cudaEvent_t event) {
  const bool happened = cudaEventQuery(event) == cudaSuccess;
  if (!happened) cudaGetLastError();
  return happened;
}

// A float of this many milliseconds is exact to 4 nanoseconds.
constexpr float longest_distance = 64.0F;

Status distance(cudaEvent_t from, cudaEvent_t to, float& milliseconds) {
  return outcome(cudaEventElapsedTime(&milliseconds, from, to), "reading the time of an event");
}

}  // namespace

// Reuses events, because creating one costs as much as recording it.
class EventPool {
 public:
  EventPool() = default;
  ~EventPool() {
    for (cudaEvent_t event : events_) cudaEventDestroy(event);
  }

  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  // Records an event on the stream; it is valid until take_back().
  Status record(cudaStream_t stream, cudaEvent_t& event) {
    if (used_ == events_.size()) {
      cudaEvent_t created = nullptr;
      PLUMBLINE_TRY(outcome(cudaEventCreate(&created), "creating an event"));
      events_.push_back(created);
    }
    event = events_[used_++];
    return outcome(cudaEventRecord(event, stream), "recording an event");
  }

  // Takes back all events; the streams must be idle.
  void take_back() { used_ = 0; }

 private:
  std::vector<cudaEvent_t> events_;
  std::size_t used_ = 0;
};

// Seconds since open(). The runtime returns the time between two events as a float of milliseconds. To keep its
// resolution of half a microsecond, intervals are short and summed in double precision.
class EventClock {
 public:
  EventClock() = default;
  ~EventClock() {
    if (epoch_ != nullptr) cudaEventDestroy(epoch_);
    if (next_ != nullptr) cudaEventDestroy(next_);
  }
  EventClock(const EventClock&) = delete;
  EventClock& operator=(const EventClock&) = delete;

  Status open(cudaStream_t stream) {
    stream_ = stream;
    PLUMBLINE_TRY(outcome(cudaEventCreate(&epoch_), "creating an event"));
    PLUMBLINE_TRY(outcome(cudaEventCreate(&next_), "creating an event"));
    PLUMBLINE_TRY(outcome(cudaEventRecord(epoch_, stream_), "recording an event"));
    return outcome(cudaEventSynchronize(epoch_), "waiting for the device");
  }

  // Restarts the interval now, for events recorded later; all streams must be idle.
  Status restart() {
    double seconds = 0;
    PLUMBLINE_TRY(now(seconds));
    std::swap(epoch_, next_);
    epoch_seconds_ = seconds;
    return {};
  }

  double restarted_at() const { return epoch_seconds_; }

  // Waits for the stream's work, and returns the time at which it ended.
  Status now(double& seconds) {
    PLUMBLINE_TRY(outcome(cudaEventRecord(next_, stream_), "recording an event"));
    PLUMBLINE_TRY(outcome(cudaEventSynchronize(next_), "waiting for the device"));
    float milliseconds = 0;
    PLUMBLINE_TRY(distance(epoch_, next_, milliseconds));
    seconds = epoch_seconds_ + 1e-3 * static_cast<double>(milliseconds);
    return {};
  }

  // Reads the times of one stream's events, in the order of recording.
  class Reader {
   public:
    explicit Reader(const EventClock& clock) : anchor_(clock.epoch_), anchor_seconds_(clock.epoch_seconds_) {}

    Status read(cudaEvent_t event, double& seconds) {
      float milliseconds = 0;
      PLUMBLINE_TRY(distance(anchor_, event, milliseconds));
      seconds = anchor_seconds_ + 1e-3 * static_cast<double>(milliseconds);
      if (milliseconds > longest_distance) {
        anchor_ = event;
        anchor_seconds_ = seconds;
      }
      return {};
    }

   private:
    cudaEvent_t anchor_;
    double anchor_seconds_;
  };

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t epoch_ = nullptr, next_ = nullptr;
  double epoch_seconds_ = 0;
};

// A CUDA stream with the records of what was launched on it.
class StreamQueue {
 public:
  StreamQueue() = default;
  ~StreamQueue() {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  StreamQueue(const StreamQueue&) = delete;
  StreamQueue& operator=(const StreamQueue&) = delete;

  // `urgent` gives the stream a higher priority: its blocks take free SMs before those of other streams.
  Status open(EventPool& events, bool urgent) {
    events_ = &events;
    int least = 0, greatest = 0;
    PLUMBLINE_TRY(outcome(cudaDeviceGetStreamPriorityRange(&least, &greatest), "reading the priorities of streams"));
    return outcome(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, urgent ? greatest : least),
                   "creating a stream");
  }

  cudaStream_t stream() const { return stream_; }

  // Runs `launch` between two events, which become the label's record. Back-to-back launches share the event between
  // them.
  Status run(model::Stream name, std::uint32_t label, const std::function<Status(cudaStream_t)>& launch) {
    // If the stream is idle, it waits for the host, which is not the kernel's time.
    if (last_ != nullptr && has_happened(last_)) last_ = nullptr;
    cudaEvent_t start = nullptr, end = nullptr;
    PLUMBLINE_TRY(mark(start));
    last_ = nullptr;
    PLUMBLINE_TRY(launch(stream_));
    PLUMBLINE_TRY(mark(end));
    pending_.push_back({label, name, start, end});
    return {};
  }

  // Runs `launch` without a record.
  Status run(const std::function<Status(cudaStream_t)>& launch) {
    last_ = nullptr;
    return launch(stream_);
  }

  // Returns an event that happens after all that was launched so far.
  Status mark(cudaEvent_t& event) {
    if (last_ == nullptr) PLUMBLINE_TRY(events_->record(stream_, last_));
    event = last_;
    return {};
  }

  Status wait(cudaEvent_t event) {
    last_ = nullptr;
    return outcome(cudaStreamWaitEvent(stream_, event, 0), "waiting for an event");
  }

  Status drain() { return outcome(cudaStreamSynchronize(stream_), "waiting for the device"); }

  // Appends the records since the last call. The stream must be idle; its events are forgotten.
  Status take_records(const EventClock& clock, std::vector<KernelRecord>& records) {
    EventClock::Reader reader(clock);
    for (const Pending& pending : pending_) {
      KernelRecord record{pending.label, pending.name};
      PLUMBLINE_TRY(reader.read(pending.start, record.start));
      PLUMBLINE_TRY(reader.read(pending.end, record.end));
      records.push_back(record);
    }
    pending_.clear();
    last_ = nullptr;
    return {};
  }

 private:
  struct Pending {
    std::uint32_t label;
    model::Stream name;
    cudaEvent_t start, end;
  };
  cudaStream_t stream_ = nullptr;
  EventPool* events_ = nullptr;
  cudaEvent_t last_ = nullptr;  // the event at the end of the stream; nullptr: work follows it
  std::vector<Pending> pending_;
};

namespace {

// Returns the contents if they may be offsets of experts: whole numbers that begin at 0 and do not decrease.
std::vector<std::int64_t> known_offsets(const CudaBuffer& buffer, std::span<const float> values) {
  if (buffer.format() != Format::int32 || buffer.columns() != 1 || values.empty()) return {};
  if (values.front() != 0 || !std::ranges::is_sorted(values)) return {};
  return {values.begin(), values.end()};
}

// Returns the capacity of a tensor whose rows routing decides: a quarter more than expected, so that small imbalances
// do not reallocate. A larger need reallocates, and the device waits for it once.
std::int64_t routed_capacity(std::int64_t rows) { return rows + rows / 4; }

}  // namespace

// Members are destroyed in reverse: streams before their events, and all before the machine's memory.
struct CudaDevice::State {
  Machine machine;
  int target_sms = 0;
  EventPool pool;
  EventClock clock;
  std::array<StreamQueue, queue_kinds> queues;
  Event first_event = 0;            // number of the first of `events`; earlier ones happened before the last settle()
  std::vector<cudaEvent_t> events;  // returned by record()
  std::vector<KernelRecord> records;
  Status failure;

  StreamQueue& queue(model::Stream stream) { return queues[static_cast<std::size_t>(queue_of(stream))]; }
  // Keeps the first failure.
  void fail_if_not(Status status) {
    if (failure.ok() && !status.ok()) failure = std::move(status);
  }

  Status open(const DeviceOptions& options) {
    PLUMBLINE_TRY(machine.open(options.ordinal, library_folders(options.library_folders)));
    target_sms = options.target_sms;
    for (std::size_t i = 0; i < queue_kinds; ++i) {
      const auto kind = static_cast<Queue>(i);
      const bool carries_data = kind == Queue::communication || kind == Queue::collective;
      PLUMBLINE_TRY(queues[i].open(pool, carries_data));
    }
    return clock.open(copies());
  }

  Status drain() {
    for (StreamQueue& queue : queues) PLUMBLINE_TRY(queue.drain());
    return {};
  }

  // Makes records of times and frees events, before times are far from the clock's last restart.
  Status settle() {
    PLUMBLINE_TRY(drain());
    for (StreamQueue& queue : queues) PLUMBLINE_TRY(queue.take_records(clock, records));
    first_event += events.size();
    events.clear();
    pool.take_back();
    return clock.restart();
  }

  Status write(CudaBuffer& buffer, std::span<const float> values) {
    if (buffer.source) {
      PLUMBLINE_TRY(write(*buffer.source->stored, values));
      PLUMBLINE_TRY(cuda::refresh(buffer, copies()));
      return outcome(cudaStreamSynchronize(copies()), "casting a parameter");
    }
    PLUMBLINE_TRY(drain());
    PLUMBLINE_TRY(upload(values, buffer.view(), copies()));
    buffer.mark_changed();
    buffer.known = known_offsets(buffer, values);
    buffer.positions.reset();
    return {};
  }

  Status read(const CudaBuffer& buffer, std::span<float> values) {
    PLUMBLINE_TRY(drain());
    return download(buffer.view(), values, copies());
  }

  // The host waits for the copy: other streams read the result without an event.
  Status copy(const CudaBuffer& flat, std::int64_t first, std::int64_t elements, CudaBuffer& to) {
    PLUMBLINE_TRY(drain());
    TensorView from = flat.view();
    from.data = static_cast<std::byte*>(from.data) + data_bytes(from.format, first);
    from.rows = elements;
    PLUMBLINE_TRY(outcome(cast(from, to.view(), copies()), "copying a tensor"));
    to.mark_changed();
    return outcome(cudaStreamSynchronize(copies()), "copying a tensor");
  }

  // Updates the kernel's FP8 parameters. This is the optimizer's work, and no part of the kernel's time.
  void refresh(model::Stream stream, const Kernel& kernel) {
    for (Buffer* read : kernel.reads) {
      auto& buffer = static_cast<CudaBuffer&>(*read);
      if (!failure.ok() || !is_behind(buffer)) continue;
      fail_if_not(queue(stream).run([&](cudaStream_t on) { return cuda::refresh(buffer, on); }));
    }
  }

 private:
  cudaStream_t copies() const { return queues[static_cast<std::size_t>(Queue::compute)].stream(); }
};

CudaDevice::CudaDevice(std::unique_ptr<State> state) : state_(std::move(state)) {}
CudaDevice::~CudaDevice() = default;

model::Result<std::unique_ptr<CudaDevice>> CudaDevice::open(const DeviceOptions& options) {
  const DeviceReport report = look_for_device(options.ordinal);
  if (report.state != DeviceState::ok) return infeasible(report.message);
  auto state = std::make_unique<State>();
  if (Status opened = state->open(options); !opened.ok()) return infeasible(opened.failure);
  return std::unique_ptr<CudaDevice>(new CudaDevice(std::move(state)));
}

BufferPointer CudaDevice::allocate(const model::Tensor& tensor) {
  const TensorShape shape = matrix_shape(tensor);
  const std::optional<Format> format = held_format(tensor);
  auto buffer =
      std::make_unique<CudaBuffer>(format.value_or(Format::fp32), shape.rows, shape.columns, shape.matrix_rows);
  Status status;
  if (!format) status = {"a GPU does not hold " + std::string(to_string(tensor.type))};
  if (state_->failure.ok() && status.ok())
    status = buffer->allocate(is_routed(tensor) ? routed_capacity(shape.rows) : shape.rows);
  if (!status.ok()) fail({tensor.name + ": " + status.failure});
  return buffer;
}

BufferPointer CudaDevice::view(Buffer& flat, std::int64_t first, const model::Tensor& tensor) {
  std::unique_ptr<CudaBuffer> view;
  if (state_->failure.ok()) state_->fail_if_not(make_view(static_cast<CudaBuffer&>(flat), first, tensor, view));
  if (view != nullptr) return view;
  const TensorShape shape = matrix_shape(tensor);  // a placeholder after a failure: nothing is launched on it
  return std::make_unique<CudaBuffer>(nullptr, Format::fp32, shape.rows, shape.columns);
}

void CudaDevice::write(Buffer& buffer, std::span<const float> values) {
  auto& target = static_cast<CudaBuffer&>(buffer);
  assert(static_cast<std::size_t>(target.elements()) == values.size());
  if (state_->failure.ok()) state_->fail_if_not(state_->write(target, values));
}

std::vector<float> CudaDevice::read(const Buffer& buffer) {
  const auto& any = static_cast<const CudaBuffer&>(buffer);
  const CudaBuffer& source = any.source ? *any.source->stored : any;
  std::vector<float> values(static_cast<std::size_t>(source.elements()));
  if (state_->failure.ok()) state_->fail_if_not(state_->read(source, values));
  return values;
}

void CudaDevice::copy(const Buffer& flat, std::int64_t first, std::int64_t elements, Buffer& to) {
  auto& target = static_cast<CudaBuffer&>(to);
  assert(target.elements() == elements);
  if (state_->failure.ok())
    state_->fail_if_not(state_->copy(static_cast<const CudaBuffer&>(flat), first, elements, target));
}

void CudaDevice::clear(model::Stream stream, Buffer& buffer, std::uint32_t label) {
  auto& target = static_cast<CudaBuffer&>(buffer);
  target.mark_changed();
  enqueue(stream, label, [view = target.view()](cudaStream_t on) -> Status {
    const auto bytes = static_cast<std::size_t>(data_bytes(view.format, view.elements()));
    return outcome(cudaMemsetAsync(view.data, 0, bytes, on), "clearing memory");
  });
}

void CudaDevice::launch(model::Stream stream, const Kernel& kernel) {
  state_->refresh(stream, kernel);
  const auto run = [&](cudaStream_t on) -> Status {
    const Function function = function_of(kernel.op->kind);
    if (function == nullptr) return {"a GPU does not compute it"};
    return function({kernel, state_->machine, on, queue_of(stream) == Queue::compute ? state_->target_sms : 0});
  };
  enqueue(stream, kernel.label, [&](cudaStream_t on) -> Status {
    Status status = run(on);
    if (!status.ok())
      status.failure = fmt::format("{} ({}): {}", kernel.op->name, to_string(kernel.op->kind), status.failure);
    return status;
  });
  for (Buffer* written : kernel.writes) static_cast<CudaBuffer*>(written)->mark_changed();
}

void CudaDevice::enqueue(model::Stream stream, std::uint32_t label, const std::function<Status(cudaStream_t)>& launch) {
  if (state_->failure.ok()) state_->fail_if_not(state_->queue(stream).run(stream, label, launch));
}

void CudaDevice::fail(const Status& status) { state_->fail_if_not(status); }

Event CudaDevice::record(model::Stream stream) {
  cudaEvent_t event = nullptr;
  if (state_->failure.ok()) state_->fail_if_not(state_->queue(stream).mark(event));
  state_->events.push_back(event);
  return state_->first_event + state_->events.size() - 1;
}

void CudaDevice::wait(model::Stream stream, Event event) {
  if (!state_->failure.ok() || event < state_->first_event) return;
  state_->fail_if_not(state_->queue(stream).wait(state_->events[event - state_->first_event]));
}

model::Result<void> CudaDevice::synchronize() {
  const bool launched = state_->failure.ok();
  // The streams are drained even after a failure, so that no kernel uses memory that is freed next.
  state_->fail_if_not(launched ? state_->settle() : state_->drain());
  if (state_->failure.ok()) return {};
  return infeasible(state_->failure.failure,
                    launched ? "with CUDA_LAUNCH_BLOCKING=1 in the environment it names the operator" : "");
}

double CudaDevice::memory_bytes() {
  std::size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) cudaGetLastError();
  return static_cast<double>(total - free);
}

double CudaDevice::now() {
  double seconds = state_->clock.restarted_at();
  if (!state_->failure.ok()) return seconds;
  state_->fail_if_not(state_->drain());
  state_->fail_if_not(state_->clock.now(seconds));
  return seconds;
}

std::vector<KernelRecord> CudaDevice::take_records() { return std::exchange(state_->records, {}); }

Machine& CudaDevice::machine() { return state_->machine; }

}  // namespace plumbline::real::cuda
