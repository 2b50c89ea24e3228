#include "real/cuda/device/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <utility>

#include "real/cuda/device/detail/host_copy.h"
#include "real/cuda/device/detail/parameters.h"
#include "real/cuda/device/detail/stream_queue.h"
#include "real/cuda/device_state.h"
#include "real/cuda/kernels/kernels.h"
#include "real/cuda/operators/operators.h"
#include "real/cuda/vendor/library_search.h"
#include "real/executor/infeasible.h"

namespace plumbline::real::cuda {
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
  void fail_if_not(Status status);

  Status open(const DeviceOptions& options);
  Status drain();
  // Makes records of times and frees events, before times are far from the clock's last restart.
  Status settle();
  Status write(CudaBuffer& buffer, std::span<const float> values);
  Status read(const CudaBuffer& buffer, std::span<float> values);
  Status copy(const CudaBuffer& flat, std::int64_t first, std::int64_t elements, CudaBuffer& to);
  // Updates the kernel's FP8 parameters. This is the optimizer's work, and no part of the kernel's time.
  void refresh(model::Stream stream, const Kernel& kernel);

 private:
  cudaStream_t copies() const { return queues[static_cast<std::size_t>(QueueKind::compute)].stream(); }
};

void CudaDevice::State::fail_if_not(Status status) {
  if (failure.ok() && !status.ok()) failure = std::move(status);
}

Status CudaDevice::State::open(const DeviceOptions& options) {
  PLUMBLINE_TRY(machine.open(options.ordinal, library_folders(options.library_folders)));
  target_sms = options.target_sms;
  for (std::size_t i = 0; i < queue_kinds; ++i) {
    const auto kind = static_cast<QueueKind>(i);
    const bool carries_data = kind == QueueKind::communication || kind == QueueKind::collective;
    PLUMBLINE_TRY(queues[i].open(pool, carries_data));
  }
  return clock.open(copies());
}

Status CudaDevice::State::drain() {
  for (StreamQueue& queue : queues) PLUMBLINE_TRY(queue.drain());
  return {};
}

Status CudaDevice::State::settle() {
  PLUMBLINE_TRY(drain());
  for (StreamQueue& queue : queues) PLUMBLINE_TRY(queue.take_records(clock, records));
  first_event += events.size();
  events.clear();
  pool.take_back();
  return clock.restart();
}

Status CudaDevice::State::write(CudaBuffer& buffer, std::span<const float> values) {
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

// The host waits for the copy: other streams read the result without an event.
Status CudaDevice::State::copy(const CudaBuffer& flat, std::int64_t first, std::int64_t elements, CudaBuffer& to) {
  PLUMBLINE_TRY(drain());
  TensorView from = flat.view();
  from.data = static_cast<std::byte*>(from.data) + data_bytes(from.format, first);
  from.rows = elements;
  PLUMBLINE_TRY(outcome(cast(from, to.view(), copies()), "copying a tensor"));
  to.mark_changed();
  return outcome(cudaStreamSynchronize(copies()), "copying a tensor");
}

Status CudaDevice::State::read(const CudaBuffer& buffer, std::span<float> values) {
  PLUMBLINE_TRY(drain());
  return download(buffer.view(), values, copies());
}

void CudaDevice::State::refresh(model::Stream stream, const Kernel& kernel) {
  for (Buffer* read : kernel.reads) {
    auto& buffer = static_cast<CudaBuffer&>(*read);
    if (!failure.ok() || !is_behind(buffer)) continue;
    fail_if_not(queue(stream).run([&](cudaStream_t on) { return cuda::refresh(buffer, on); }));
  }
}

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
    return function({kernel, state_->machine, on, queue_of(stream) == QueueKind::compute ? state_->target_sms : 0});
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
