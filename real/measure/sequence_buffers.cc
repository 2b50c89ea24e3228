#include "real/measure/sequence_buffers.h"

#include <algorithm>

#include "model/cost/operator_class.h"

namespace plumbline::real {
namespace {

using model::Role;
using model::TensorId;

bool persists(const model::Tensor& tensor) { return tensor.role != Role::activation && tensor.role != Role::input; }

bool fits(const model::Tensor& a, const model::Tensor& b) {
  return a.type == b.type && a.shape.size() == b.shape.size() &&
         std::ranges::equal(a.shape, b.shape, {}, &model::Dimension::size, &model::Dimension::size);
}

std::vector<bool> transferred_tensors(const model::Graph& graph) {
  std::vector<bool> transferred(graph.tensors.size());
  for (const model::Operator& op : graph.operators) {
    if (!is_all_to_all(op.kind)) continue;
    for (const TensorId id : op.reads) transferred[id] = true;
    for (const TensorId id : op.writes) transferred[id] = true;
  }
  return transferred;
}

}  // namespace

SequenceBuffers::SequenceBuffers(const Sequence& sequence, Device& device, std::size_t sets, Apart apart)
    : sequence_(sequence), device_(device), apart_(apart) {
  for (std::size_t block = 0; block < sequence.blocks.size(); ++block)
    transferred_.push_back(transferred_tensors(graph(block)));
  for (std::size_t block = 0; block < sequence.blocks.size(); ++block) contents_.emplace_back(graph(block), block);
  for (std::size_t set = 0; set < sets; ++set) add_set(set);
  written_ = {};
}

Kernel SequenceBuffers::kernel(std::size_t set, const Sequence::Step& step, std::uint32_t label) const {
  const model::Operator& op = sequence_.op(step);
  Kernel kernel{.graph = &sequence_.graph(step), .op = &op, .label = label};
  for (const TensorId id : op.reads) kernel.reads.push_back(at(set, step.block, id));
  for (const TensorId id : op.writes) kernel.writes.push_back(at(set, step.block, id));
  return kernel;
}

const std::vector<float>& SequenceBuffers::left_in(std::size_t block, TensorId tensor) {
  auto& values = left_[{block, tensor}];
  if (values.empty()) values = contents_[block].values(tensor);
  return values;
}

Buffer* SequenceBuffers::allocate(std::size_t block, TensorId id) {
  const model::Tensor& tensor = graph(block).tensor(id);
  owned_.push_back(device_.allocate(tensor));
  if (contents_[block].needed(id)) {
    contents_[block].values(id, written_);
    device_.write(*owned_.back(), written_);
  }
  return owned_.back().get();
}

bool SequenceBuffers::passes_on(std::size_t block) const {
  if (block + 1 >= sequence_.chained) return false;
  const model::Graph &from = graph(block), &to = graph(block + 1);
  return fits(from.tensor(from.output), to.tensor(to.input));
}

bool SequenceBuffers::takes_back(std::size_t block) const {
  if (block + 1 >= sequence_.chained) return false;
  const model::Graph &from = graph(block), &to = graph(block + 1);
  const bool crosses = from.output_gradient != from.input && to.input_gradient != to.input;
  return crosses && fits(from.tensor(from.output_gradient), to.tensor(to.input_gradient));
}

bool SequenceBuffers::is_apart(std::size_t block, TensorId id) const {
  if (persists(graph(block).tensor(id))) return false;
  return apart_ == Apart::activations || transferred_[block][id];
}

void SequenceBuffers::add_set(std::size_t set) {
  Table& table = sets_.emplace_back(sequence_.blocks.size());
  for (std::size_t block = 0; block < table.size(); ++block) {
    const model::Graph& g = graph(block);
    table[block].resize(g.tensors.size());
    if (block > 0 && passes_on(block - 1)) table[block][g.input] = table[block - 1][graph(block - 1).output];
    for (TensorId id = 0; id < g.tensors.size(); ++id) {
      const bool comes_later = takes_back(block) && id == g.output_gradient;
      if (table[block][id] != nullptr || comes_later) continue;
      table[block][id] = set > 0 && !is_apart(block, id) ? sets_[0][block][id] : allocate(block, id);
    }
  }
  for (std::size_t block = table.size(); block-- > 0;)
    if (takes_back(block))
      table[block][graph(block).output_gradient] = table[block + 1][graph(block + 1).input_gradient];
}

}  // namespace plumbline::real
