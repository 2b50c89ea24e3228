#include "real/cuda/device/detail/stream_queue.h"

#include <utility>

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

QueueKind queue_of(model::Stream stream) {
  switch (stream) {
    case model::Stream::communication:
      return QueueKind::communication;
    case model::Stream::collective:
      return QueueKind::collective;
    case model::Stream::optimizer:
      return QueueKind::optimizer;
    default:
      return QueueKind::compute;
  }
}

StreamQueue::~StreamQueue() {
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

Status StreamQueue::open(EventPool& events, bool urgent) {
  events_ = &events;
  int least = 0, greatest = 0;
  PLUMBLINE_TRY(outcome(cudaDeviceGetStreamPriorityRange(&least, &greatest), "reading the priorities of streams"));
  return outcome(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, urgent ? greatest : least),
                 "creating a stream");
}

Status StreamQueue::run(model::Stream name, std::uint32_t label, const std::function<Status(cudaStream_t)>& launch) {
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

Status StreamQueue::run(const std::function<Status(cudaStream_t)>& launch) {
  last_ = nullptr;
  return launch(stream_);
}

Status StreamQueue::mark(cudaEvent_t& event) {
  if (last_ == nullptr) PLUMBLINE_TRY(events_->record(stream_, last_));
  event = last_;
  return {};
}

Status StreamQueue::wait(cudaEvent_t event) {
  last_ = nullptr;
  return outcome(cudaStreamWaitEvent(stream_, event, 0), "waiting for an event");
}

Status StreamQueue::drain() { return outcome(cudaStreamSynchronize(stream_), "waiting for the device"); }

Status StreamQueue::take_records(const EventClock& clock, std::vector<KernelRecord>& records) {
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

EventPool::~EventPool() {
  for (cudaEvent_t event : events_) cudaEventDestroy(event);
}

Status EventPool::record(cudaStream_t stream, cudaEvent_t& event) {
  if (used_ == events_.size()) {
    cudaEvent_t created = nullptr;
    PLUMBLINE_TRY(outcome(cudaEventCreate(&created), "creating an event"));
    events_.push_back(created);
  }
  event = events_[used_++];
  return outcome(cudaEventRecord(event, stream), "recording an event");
}

EventClock::~EventClock() {
  if (epoch_ != nullptr) cudaEventDestroy(epoch_);
  if (next_ != nullptr) cudaEventDestroy(next_);
}

Status EventClock::open(cudaStream_t stream) {
  stream_ = stream;
  PLUMBLINE_TRY(outcome(cudaEventCreate(&epoch_), "creating an event"));
  PLUMBLINE_TRY(outcome(cudaEventCreate(&next_), "creating an event"));
  PLUMBLINE_TRY(outcome(cudaEventRecord(epoch_, stream_), "recording an event"));
  return outcome(cudaEventSynchronize(epoch_), "waiting for the device");
}

Status EventClock::now(double& seconds) {
  PLUMBLINE_TRY(outcome(cudaEventRecord(next_, stream_), "recording an event"));
  PLUMBLINE_TRY(outcome(cudaEventSynchronize(next_), "waiting for the device"));
  float milliseconds = 0;
  PLUMBLINE_TRY(distance(epoch_, next_, milliseconds));
  seconds = epoch_seconds_ + 1e-3 * static_cast<double>(milliseconds);
  return {};
}

Status EventClock::restart() {
  double seconds = 0;
  PLUMBLINE_TRY(now(seconds));
  std::swap(epoch_, next_);
  epoch_seconds_ = seconds;
  return {};
}

Status EventClock::Reader::read(cudaEvent_t event, double& seconds) {
  float milliseconds = 0;
  PLUMBLINE_TRY(distance(anchor_, event, milliseconds));
  seconds = anchor_seconds_ + 1e-3 * static_cast<double>(milliseconds);
  if (milliseconds > longest_distance) {
    anchor_ = event;
    anchor_seconds_ = seconds;
  }
  return {};
}

}  // namespace plumbline::real::cuda
