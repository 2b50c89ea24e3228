// Operators of a sequence, each timed by the clock of its stream.
#include <algorithm>
#include <limits>
#include <optional>

#include "real/host/buffer.h"
#include "real/host/measure/copier.h"
#include "real/host/measure/runner.h"
#include "real/measure/sequence_buffers.h"

namespace plumbline::real::host {
namespace {

using model::Graph;
using model::Operator;
using model::OperatorKind;
using model::Result;
using model::Role;
using model::Tensor;
using model::TensorId;

constexpr std::uint32_t unlabelled = std::numeric_limits<std::uint32_t>::max();

class SequenceRunner final : public Runner {
 public:
  SequenceRunner(const Sequence& sequence, HostDevice& device)
      : sequence_(sequence), device_(device), buffers_(sequence, device, buffer_sets) {
    if (sequence.copy_cores > 0) copier_.emplace(sequence.copy_cores);
  }

  Result<std::vector<Sample>> round(std::size_t number) override {
    const std::size_t set = number % buffer_sets;
    if (copier_) {
      copier_->start(device_, unlabelled);
      copier_->enqueue_begun(device_, unlabelled);
    }
    std::uint32_t label = 0;
    for (const Sequence::Step& step : sequence_.steps) {
      if (has_stand_in(sequence_.op(step).kind))
        stand_in(set, step);
      else
        launch(set, step, label++);
    }
    if (copier_) copier_->enqueue_stop(device_, unlabelled);
    if (const auto ended = device_.synchronise(); !ended) return tl::unexpected(ended.error());
    std::vector<Sample> samples;
    for (const KernelRecord& record : device_.take_records()) {
      if (record.label == unlabelled) continue;
      samples.push_back({record.label, record.end - record.start, copier_ ? copier_->rate() : 0});
    }
    return samples;
  }

 private:
  void launch(std::size_t set, const Sequence::Step& step, std::uint32_t label) {
    device_.launch(model::Stream::compute, buffers_.kernel(set, step, label));
  }

  // What an exchange receives is written by another stream, as when it is real; what comes back from the host's memory
  // is still there.
  void stand_in(std::size_t set, const Sequence::Step& step) {
    const Operator& op = sequence_.op(step);
    if (op.kind == OperatorKind::copy_to_device) return;
    device_.wait(model::Stream::communication, device_.record(model::Stream::compute));
    for (const TensorId id : op.writes) {
      auto* buffer = static_cast<HostBuffer*>(buffers_.at(set, step.block, id));
      const std::vector<float>& values = buffers_.left_in(step.block, id);
      const auto leave = [buffer, &values](StreamClock&) { std::ranges::copy(values, buffer->data()); };
      device_.enqueue(model::Stream::communication, {leave, [](StreamClock&) {}, unlabelled});
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
