#include "model/memory/stage_tensors.h"

#include <optional>

namespace plumbline::model {
namespace {

bool is_activation(const Tensor& tensor) { return tensor.role == Role::activation || tensor.role == Role::input; }

// Returns the phase after which each tensor of a graph exists; inputs of the backward pass count as I, and what an
// operator overwrites exists since it was first written.
std::vector<std::optional<Phase>> origins(const Graph& graph) {
  std::vector<std::optional<Phase>> origin(graph.tensors.size());
  const auto set = [&origin](TensorId id, Phase phase) {
    if (!origin[id]) origin[id] = phase;
  };
  for (const Operator& op : graph.operators) {
    if (op.in_place) origin[op.writes.back()] = origin[op.reads.front()];
    if (op.kind != OperatorKind::copy_to_device)
      for (const TensorId id : op.writes) set(id, op.phase);
  }
  if (graph.tensors.empty()) return origin;
  set(graph.input, Phase::F);
  set(graph.output_gradient, Phase::I);
  return origin;
}

Bytes in_memory(const Tensor& tensor) { return tensor.bytes() / static_cast<double>(tensor.chunks); }

bool is_routed(const Tensor& tensor) { return !tensor.shape.empty() && tensor.shape[0].extent >= Extent::received; }

bool receives(const Tensor& tensor) { return !tensor.shape.empty() && tensor.shape[0].extent == Extent::received; }

bool is_all_to_all(const Operator& op) { return op.section == Section::dispatch || op.section == Section::combine; }

}  // namespace

StageIndex::StageIndex(const StageKind& stage, const std::vector<Graph>& blocks) {
  const auto graph = [&](std::size_t position) -> const Graph& { return blocks[stage.blocks[position]]; };
  std::uint32_t count = 0;
  for (std::size_t position = 0; position < stage.blocks.size(); ++position) {
    first_.push_back(count);
    count += static_cast<std::uint32_t>(graph(position).tensors.size());
  }
  index_.resize(count);
  const auto joined = [&](std::size_t position) {
    return position + 1 < stage.blocks.size() && graph(position).reference == graph(position + 1).reference;
  };
  const auto writer = [&](std::size_t position, TensorId id) {
    while (id == graph(position).input && position > 0 && joined(position - 1)) id = graph(--position).output;
    while (id == graph(position).output_gradient && id != graph(position).input && joined(position))
      id = graph(++position).input_gradient;
    return first_[position] + id;
  };
  for (std::size_t position = 0; position < stage.blocks.size(); ++position)
    for (TensorId id = 0; id < graph(position).tensors.size(); ++id)
      index_[first_[position] + id] = writer(position, id);
  for (std::size_t position = 0; position < stage.blocks.size(); ++position)
    for (const Operator& op : graph(position).operators)
      if (op.in_place) index_[first_[position] + op.writes.back()] = index_[first_[position] + op.reads.front()];
}

StageTensors::StageTensors(const StepProgram& program, std::int32_t stage_kind)
    : index_(program.stage_kinds[static_cast<std::size_t>(stage_kind)], program.blocks), tensors_(index_.size()) {
  const std::vector<std::uint16_t>& blocks = program.stage_kinds[static_cast<std::size_t>(stage_kind)].blocks;
  const auto graph = [&](std::size_t position) -> const Graph& { return program.blocks[blocks[position]]; };
  for (std::size_t position = 0, own = 0; position < blocks.size(); ++position) {
    const std::vector<bool> within = within_kernels(graph(position));
    for (TensorId id = 0; id < graph(position).tensors.size(); ++id, ++own)
      if (index_(position, id) == own && is_activation(graph(position).tensor(id)))
        tensors_[own] = {within[id] ? Bytes() : in_memory(graph(position).tensor(id)),
                         Lifetime::within_slot,
                         false,
                         is_routed(graph(position).tensor(id)),
                         {}};
  }
  for (std::size_t position = 0; position < blocks.size(); ++position) {
    const Graph& g = graph(position);
    const auto origin = origins(g);
    for (const Operator& op : g.operators) {
      if (is_all_to_all(op))
        for (const auto* ids : {&op.reads, &op.writes})
          for (const TensorId id : *ids)
            if (receives(g.tensor(id))) tensors_[index_(position, id)].received = true;
      if (op.phase == Phase::F) continue;
      if (op.kind == OperatorKind::copy_to_device)
        tensors_[index_(position, op.writes[0])].on_host = g.tensor(op.reads[0]).bytes();
      for (const TensorId id : op.reads) {
        StageTensor& tensor = tensors_[index_(position, id)];
        if (tensor.lifetime == Lifetime::never || !origin[id]) continue;
        const bool until_weight = op.phase == Phase::W;
        if (*origin[id] == Phase::F && (until_weight || tensor.lifetime == Lifetime::within_slot))
          tensor.lifetime = until_weight ? Lifetime::forward_to_weight : Lifetime::forward_to_input;
        if (*origin[id] == Phase::I && until_weight) tensor.lifetime = Lifetime::input_gradient_to_weight;
      }
    }
  }
  if (blocks.empty()) return;
  output_ = index(static_cast<std::uint16_t>(blocks.size() - 1), graph(blocks.size() - 1).output);
  input_gradient_ = index(0, graph(0).input_gradient);
}

Bytes StageTensors::on_host() const {
  Bytes sum;
  for (const StageTensor& tensor : tensors_) sum += tensor.on_host;
  return sum;
}

Bytes StageTensors::kept(Lifetime lifetime) const {
  Bytes sum;
  for (const StageTensor& tensor : tensors_)
    if (tensor.lifetime == lifetime) sum += tensor.bytes;
  return sum;
}

}  // namespace plumbline::model
