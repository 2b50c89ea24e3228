#include "model/memory/stage_tensors.h"

#include <optional>

namespace plumbline::model {

namespace {

bool is_activation(const Tensor& tensor) { return tensor.role == Role::activation || tensor.role == Role::input; }

// The phase after which each tensor of a graph exists; what enters the backward pass counts as I.
std::vector<std::optional<Phase>> origins(const Graph& graph) {
  std::vector<std::optional<Phase>> origin(graph.tensors.size());
  const auto set = [&origin](TensorId id, Phase phase) {
    if (!origin[id]) origin[id] = phase;
  };
  for (const Operator& op : graph.operators)
    if (op.kind != OperatorKind::copy_to_device)
      for (const TensorId id : op.writes) set(id, op.phase);
  if (graph.tensors.empty()) return origin;
  set(graph.input, Phase::F);
  set(graph.output_gradient, Phase::I);
  return origin;
}

bool receives(const Tensor& tensor) { return !tensor.shape.empty() && tensor.shape[0].extent == Extent::received; }

bool exchanges(const Operator& op) { return op.section == Section::dispatch || op.section == Section::combine; }

}  // namespace

StageTensors::StageTensors(const StepProgram& program, std::int32_t stage_kind) {
  const std::vector<std::uint16_t>& blocks = program.stage_kinds[static_cast<std::size_t>(stage_kind)].blocks;
  const auto graph = [&](std::size_t position) -> const Graph& { return program.blocks[blocks[position]]; };
  std::uint32_t count = 0;
  for (std::size_t position = 0; position < blocks.size(); ++position) {
    first_.push_back(count);
    count += static_cast<std::uint32_t>(graph(position).tensors.size());
  }
  index_.resize(count);
  tensors_.resize(count);

  const auto writer = [&](std::size_t position, TensorId id) {
    while (id == graph(position).input && position > 0) id = graph(--position).output;
    while (id == graph(position).output_gradient && id != graph(position).input && position + 1 < blocks.size())
      id = graph(++position).input_gradient;
    return first_[position] + id;
  };
  for (std::size_t position = 0; position < blocks.size(); ++position) {
    const Graph& g = graph(position);
    for (TensorId id = 0; id < g.tensors.size(); ++id) {
      const std::uint32_t index = index_[first_[position] + id] = writer(position, id);
      if (index != first_[position] + id || !is_activation(g.tensor(id))) continue;
      tensors_[index] = {g.tensor(id).bytes(), Kept::within_slot, false, {}};
    }
  }
  for (std::size_t position = 0; position < blocks.size(); ++position) {
    const Graph& g = graph(position);
    const auto origin = origins(g);
    for (const Operator& op : g.operators) {
      if (exchanges(op))
        for (const auto* ids : {&op.reads, &op.writes})
          for (const TensorId id : *ids)
            if (receives(g.tensor(id))) tensors_[index_[first_[position] + id]].exchanged = true;
      if (op.phase == Phase::F) continue;
      if (op.kind == OperatorKind::copy_to_device)
        tensors_[index_[first_[position] + op.writes[0]]].on_host = g.tensor(op.reads[0]).bytes();
      for (const TensorId id : op.reads) {
        StageTensor& tensor = tensors_[index_[first_[position] + id]];
        if (tensor.kept == Kept::never || !origin[id]) continue;
        const bool until_weight = op.phase == Phase::W;
        if (*origin[id] == Phase::F && (until_weight || tensor.kept == Kept::within_slot))
          tensor.kept = until_weight ? Kept::forward_to_weight : Kept::forward_to_input;
        if (*origin[id] == Phase::I && until_weight) tensor.kept = Kept::input_gradient_to_weight;
      }
    }
  }
  if (blocks.empty()) return;
  output_ = index(static_cast<std::uint16_t>(blocks.size() - 1), graph(blocks.size() - 1).output);
  input_gradient_ = index(0, graph(0).input_gradient);
}

Bytes StageTensors::kept(Kept kept) const {
  Bytes sum;
  for (const StageTensor& tensor : tensors_)
    if (tensor.kept == kept) sum += tensor.bytes;
  return sum;
}

}  // namespace plumbline::model
