#include "real/host/device.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <utility>

#include "real/executor/infeasible.h"
#include "real/host/buffer.h"
#include "real/host/detail/stream.h"
#include "real/host/pool.h"
#include "real/host/rounding.h"

namespace plumbline::real::host {
namespace {

// The host's streams, each with its own cores. Several streams of the model share one; their work runs in launch order.
enum class Queue : std::uint8_t { compute, communication, collective, optimizer };
constexpr std::size_t queues = 4;

Queue queue_of(model::Stream stream) {
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

// The capacity of routed tensors, as a multiple of their expected rows, so that a step in which an expert has more rows
// does not wait for an allocation.
constexpr Index routed_capacity = 2;

}  // namespace

struct HostDevice::State {
  bool threads = true;
  Pool pool;
  EventBoard events;
  FailureBoard failures;
  std::vector<std::unique_ptr<Stream>> streams;  // by Queue

  Stream& stream(model::Stream name) { return *streams[static_cast<std::size_t>(queue_of(name))]; }
};

HostDevice::HostDevice(const DeviceOptions& options) : state_(std::make_unique<State>()) {
  state_->threads = options.threads;
  state_->streams.reserve(queues);
  for (std::size_t queue = 0; queue < queues; ++queue) {
    const bool computes = queue == static_cast<std::size_t>(Queue::compute);
    const StreamOptions stream{options.clock, options.simulated, options.kernel_seconds,
                               computes ? options.compute_cores : options.communication_cores, options.accumulation};
    state_->streams.push_back(options.threads
                                  ? threaded_stream(stream, state_->events, state_->failures)
                                  : inline_stream(stream, state_->events, state_->failures, state_->streams));
  }
}

HostDevice::~HostDevice() = default;

double HostDevice::memory_bytes() { return state_->pool.most_bytes(); }

BufferPointer HostDevice::allocate(const model::Tensor& tensor) {
  const TensorShape shape = matrix_shape(tensor);
  const Index capacity = is_routed(tensor) ? routed_capacity * shape.rows : shape.rows;
  auto buffer = std::make_unique<HostBuffer>(state_->pool, tensor.type, capacity, shape.columns);
  std::fill_n(buffer->data(), buffer->size(), 0.0F);
  buffer->resize(shape.rows);
  return buffer;
}

BufferPointer HostDevice::view(Buffer& flat, std::int64_t first, const model::Tensor& tensor) {
  const TensorShape shape = matrix_shape(tensor);
  auto& whole = static_cast<HostBuffer&>(flat);
  assert(first + shape.rows * shape.columns <= whole.size());
  return std::make_unique<HostBuffer>(whole.data() + first, tensor.type, shape.rows, shape.columns);
}

void HostDevice::write(Buffer& buffer, std::span<const float> values) {
  auto& target = static_cast<HostBuffer&>(buffer);
  assert(static_cast<std::size_t>(target.size()) == values.size());
  for (const auto& stream : state_->streams) stream->drain();
  std::ranges::copy(values, target.data());
  round_to(target.type(), {target.data(), values.size()});
}

std::vector<float> HostDevice::read(const Buffer& buffer) {
  const auto& source = static_cast<const HostBuffer&>(buffer);
  for (const auto& stream : state_->streams) stream->drain();
  return {source.data(), source.data() + source.size()};
}

void HostDevice::clear(model::Stream stream, Buffer& buffer, std::uint32_t label) {
  auto& target = static_cast<HostBuffer&>(buffer);
  enqueue(stream, {[&target](StreamClock&) { target.array().setZero(); }, [](StreamClock&) {}, label});
}

bool HostDevice::concurrent() const { return state_->threads; }

void HostDevice::launch(model::Stream stream, const Kernel& kernel) { state_->stream(stream).run(stream, kernel); }

Event HostDevice::record(model::Stream stream) {
  const Event event = state_->events.create();
  state_->stream(stream).record(event);
  return event;
}

void HostDevice::wait(model::Stream stream, Event event) { state_->stream(stream).wait(event); }

void HostDevice::enqueue(model::Stream stream, StreamWork work) { state_->stream(stream).run(stream, std::move(work)); }

void HostDevice::on_failure(std::function<void(const std::string&)> listener) {
  state_->failures.set_listener(std::move(listener));
}

model::Result<void> HostDevice::synchronize() {
  for (const auto& stream : state_->streams) stream->drain();
  if (state_->failures.failed()) return infeasible(state_->failures.reason());
  state_->events.forget();
  return {};
}

double HostDevice::now() {
  double latest = 0;
  for (const auto& stream : state_->streams) latest = std::max(latest, stream->now());
  return latest;
}

std::vector<KernelRecord> HostDevice::take_records() {
  std::vector<KernelRecord> records;
  for (const auto& stream : state_->streams) std::ranges::move(stream->take_records(), std::back_inserter(records));
  return records;
}

}  // namespace plumbline::real::host
