#include "real/cuda/device/detail/stream_queue.h"

namespace plumbline::real::cuda {

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

namespace {

// A query leaves "not ready" as the runtime's last error, which the next launch would report as its own.
bool has_happened(cudaEvent_t event) {
  const bool happened = cudaEventQuery(event) == cudaSuccess;
  if (!happened) cudaGetLastError();
  return happened;
}

}  // namespace

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

}  // namespace plumbline::real::cuda
