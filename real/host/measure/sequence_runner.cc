// Operators of a sequence, each timed by the clock of its stream.
#include <algorithm>
#include <limits>
#include <optional>

#include "real/host/buffer.h"
#include "real/host/measure/contents.h"
#include "real/host/measure/copier.h"
#include "real/host/measure/runner.h"

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

bool persists(const Tensor& tensor) { return tensor.role != Role::activation && tensor.role != Role::input; }

bool fits(const Tensor& a, const Tensor& b) {
  return a.type == b.type && a.shape.size() == b.shape.size() &&
         std::ranges::equal(a.shape, b.shape, {}, &model::Dimension::size, &model::Dimension::size);
}

// The buffers of a sequence: parameters, gradients and states once, what passes through several times.
class SequenceBuffers {
 public:
  SequenceBuffers(const Sequence& sequence, HostDevice& device) : sequence_(sequence), device_(device) {
    for (std::size_t block = 0; block < sequence.blocks.size(); ++block) contents_.emplace_back(graph(block), block);
    for (std::size_t set = 0; set < buffer_sets; ++set) add_set(set);
  }

  Buffer* at(std::size_t set, std::size_t block, TensorId tensor) const { return sets_[set][block][tensor]; }

  // What a stand-in leaves in a tensor; the same in each set.
  const std::vector<float>& left_in(std::size_t block, TensorId tensor) {
    auto& values = left_[{block, tensor}];
    if (values.empty()) values = contents_[block].values(tensor);
    return values;
  }

 private:
  using Table = std::vector<std::vector<Buffer*>>;  // [block][tensor]

  const Graph& graph(std::size_t block) const { return sequence_.graphs[sequence_.blocks[block].graph]; }

  Buffer* allocate(std::size_t block, TensorId id) {
    const Tensor& tensor = graph(block).tensor(id);
    owned_.push_back(device_.allocate(tensor));
    if (contents_[block].needed(id)) device_.write(*owned_.back(), contents_[block].values(id));
    return owned_.back().get();
  }

  // Whether the block's end is the beginning of the next one.
  bool passes_on(std::size_t block) const {
    if (block + 1 >= sequence_.chained) return false;
    const Graph &from = graph(block), &to = graph(block + 1);
    return fits(from.tensor(from.output), to.tensor(to.input));
  }
  bool takes_back(std::size_t block) const {
    if (block + 1 >= sequence_.chained) return false;
    const Graph &from = graph(block), &to = graph(block + 1);
    const bool crosses = from.output_gradient != from.input && to.input_gradient != to.input;
    return crosses && fits(from.tensor(from.output_gradient), to.tensor(to.input_gradient));
  }

  void add_set(std::size_t set) {
    Table& table = sets_.emplace_back(sequence_.blocks.size());
    for (std::size_t block = 0; block < table.size(); ++block) {
      const Graph& g = graph(block);
      table[block].resize(g.tensors.size());
      if (block > 0 && passes_on(block - 1)) table[block][g.input] = table[block - 1][graph(block - 1).output];
      for (TensorId id = 0; id < g.tensors.size(); ++id) {
        const bool comes_later = takes_back(block) && id == g.output_gradient;
        if (table[block][id] != nullptr || comes_later) continue;
        table[block][id] = set > 0 && persists(g.tensor(id)) ? sets_[0][block][id] : allocate(block, id);
      }
    }
    for (std::size_t block = table.size(); block-- > 0;) {
      if (takes_back(block))
        table[block][graph(block).output_gradient] = table[block + 1][graph(block + 1).input_gradient];
    }
  }

  const Sequence& sequence_;
  HostDevice& device_;
  std::vector<Contents> contents_;  // by block
  std::vector<BufferPointer> owned_;
  std::vector<Table> sets_;
  std::map<std::pair<std::size_t, TensorId>, std::vector<float>> left_;
};

class SequenceRunner final : public Runner {
 public:
  SequenceRunner(const Sequence& sequence, HostDevice& device)
      : sequence_(sequence), device_(device), buffers_(sequence, device) {
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
    const Operator& op = sequence_.op(step);
    Kernel kernel{.graph = &sequence_.graph(step), .op = &op, .label = label};
    for (const TensorId id : op.reads) kernel.reads.push_back(buffers_.at(set, step.block, id));
    for (const TensorId id : op.writes) kernel.writes.push_back(buffers_.at(set, step.block, id));
    device_.launch(model::Stream::compute, kernel);
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
