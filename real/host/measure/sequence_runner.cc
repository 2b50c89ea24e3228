// Runs the operators of a sequence, each timed by the clock of its stream.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <thread>
#include <vector>

#include "real/host/buffer.h"
#include "real/host/cores.h"
#include "real/host/device.h"
#include "real/host/measure/runner.h"
#include "real/measure/sequence_buffers.h"

namespace plumbline::real::host {
namespace {

// The size of the copy: more than the caches of common processors hold, so that it goes through memory.
constexpr std::size_t copied_floats = std::size_t{1} << 24;
// The floats that are copied between two checks for the stop, in a time that is short against the measured operators.
constexpr std::size_t chunk_floats = std::size_t{1} << 16;

// Threads that copy through memory concurrently with the measured operators, as transfers and other ranks do.
class Copier {
 public:
  explicit Copier(int cores) : cores_(cores), from_(copied_floats, 1.0F), to_(copied_floats, 0.0F) {}

  // Enqueues a copy on the communication stream, which lasts until the work of enqueue_stop().
  void start(HostDevice& device, std::uint32_t label) {
    begun_ = stopped_ = false;
    device.enqueue(model::Stream::communication, {[this](StreamClock&) { copy(); }, [](StreamClock&) {}, label});
  }

  // Enqueue work on the compute stream that waits until copying has begun, and work that ends it.
  void enqueue_begun(HostDevice& device, std::uint32_t label) {
    const auto wait = [this](StreamClock&) {
      while (!begun_) std::this_thread::yield();
    };
    device.enqueue(model::Stream::compute, {wait, [](StreamClock&) {}, label});
  }
  void enqueue_stop(HostDevice& device, std::uint32_t label) {
    device.enqueue(model::Stream::compute, {[this](StreamClock&) { stopped_ = true; }, [](StreamClock&) {}, label});
  }

  double rate() const { return seconds_ > 0 ? bytes_ / seconds_ : 0; }  // bytes copied per second of the last run

 private:
  void copy() {
    const auto start = std::chrono::steady_clock::now();
    bytes_ = 0;
    for (std::size_t at = 0; !stopped_; at = (at + chunk_floats) % copied_floats) {
      cores_.split(chunk_floats, 1, [&](Index begin, Index end) {
        std::copy_n(from_.data() + at + static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin),
                    to_.data() + at + static_cast<std::size_t>(begin));
      });
      bytes_ += static_cast<double>(chunk_floats * sizeof(float));
      begun_ = true;  // once it has a rate, however soon it is stopped
    }
    seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  Cores cores_;
  std::vector<float> from_, to_;
  std::atomic<bool> begun_ = false, stopped_ = false;
  double bytes_ = 0, seconds_ = 0;
};

constexpr std::uint32_t not_timed = std::numeric_limits<std::uint32_t>::max();

class SequenceRunner final : public Runner {
 public:
  SequenceRunner(const Sequence& sequence, HostDevice& device)
      : sequence_(sequence), device_(device), buffers_(sequence, device, buffer_sets) {
    if (sequence.communication_sms > 0) copier_.emplace(sequence.communication_sms);
  }

  model::Result<std::vector<Sample>> round(std::size_t number) override {
    const std::size_t set = number % buffer_sets;
    if (copier_) {
      copier_->start(device_, not_timed);
      copier_->enqueue_begun(device_, not_timed);
    }
    std::uint32_t label = 0;
    for (const Sequence::Step& step : sequence_.steps) {
      if (has_stand_in(sequence_.op(step).kind))
        stand_in(set, step);
      else
        launch(set, step, label++);
    }
    if (copier_) copier_->enqueue_stop(device_, not_timed);
    TRY(device_.synchronize());
    std::vector<Sample> samples;
    for (const KernelRecord& record : device_.take_records()) {
      if (record.label == not_timed) continue;
      samples.push_back({record.label, record.end - record.start, copier_ ? copier_->rate() : 0});
    }
    return samples;
  }

 private:
  void launch(std::size_t set, const Sequence::Step& step, std::uint32_t label) {
    device_.launch(model::Stream::compute, buffers_.kernel(set, step, label));
  }

  // The communication stream writes the outputs of a dispatch, combine or collective, as in a step. A copy from the
  // host needs no stand-in, because its tensor is still there.
  void stand_in(std::size_t set, const Sequence::Step& step) {
    const model::Operator& op = sequence_.op(step);
    if (op.kind == model::OperatorKind::copy_to_device) return;
    device_.wait(model::Stream::communication, device_.record(model::Stream::compute));
    for (const model::TensorId id : op.writes) {
      auto* buffer = static_cast<HostBuffer*>(buffers_.at(set, step.block, id));
      const std::vector<float>& values = buffers_.left_in(step.block, id);
      const auto leave = [buffer, &values](StreamClock&) { std::ranges::copy(values, buffer->data()); };
      device_.enqueue(model::Stream::communication, {leave, [](StreamClock&) {}, not_timed});
    }
    device_.wait(model::Stream::compute, device_.record(model::Stream::communication));
  }

  const Sequence& sequence_;
  HostDevice& device_;
  SequenceBuffers buffers_;
  std::optional<Copier> copier_;
};

}  // namespace

std::unique_ptr<Runner> make_sequence_runner(const Sequence& sequence, HostDevice& device) {
  return std::make_unique<SequenceRunner>(sequence, device);
}

}  // namespace plumbline::real::host
