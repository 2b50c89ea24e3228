#include "real/cuda/device/events.h"

#include <utility>

namespace plumbline::real::cuda {
namespace {

// A float of this many milliseconds is exact to 4 nanoseconds.
constexpr float longest_distance = 64.0F;

Status distance(cudaEvent_t from, cudaEvent_t to, float& milliseconds) {
  return outcome(cudaEventElapsedTime(&milliseconds, from, to), "reading the time of an event");
}

}  // namespace

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
