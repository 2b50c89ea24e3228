#include "model/activations.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

namespace plumbline::model {

namespace {

// The blocks of one stage with the tensors that cross between them under one name each.
class StageView {
 public:
  StageView(const StepProgram& program, std::int32_t stage_kind)
      : program_(program), blocks_(program.stage_kinds[stage_kind].blocks) {}

  std::uint16_t size() const { return static_cast<std::uint16_t>(blocks_.size()); }
  const Graph& graph(std::uint16_t position) const { return program_.blocks[blocks_[position]]; }
  const Tensor& tensor(StageTensor id) const { return graph(id.first).tensor(id.second); }

  // An activation is known by the block that writes it, a gradient too.
  StageTensor writer(std::uint16_t position, TensorId id) const {
    const Graph& g = graph(position);
    if (id == g.input && position > 0) {
      const auto before = static_cast<std::uint16_t>(position - 1);
      return writer(before, graph(before).output);
    }
    if (id == g.output_gradient && id != g.input && position + 1 < size()) {
      const auto after = static_cast<std::uint16_t>(position + 1);
      return writer(after, graph(after).input_gradient);
    }
    return {position, id};
  }

  bool is_activation(StageTensor id) const {
    const Role role = tensor(id).role;
    return role == Role::activation || role == Role::input;
  }

  Bytes bytes(const std::set<StageTensor>& tensors) const {
    Bytes sum;
    for (const StageTensor& id : tensors) sum += tensor(id).bytes();
    return sum;
  }

 private:
  const StepProgram& program_;
  const std::vector<std::uint16_t>& blocks_;
};

// The phase after which each tensor of a graph exists; what enters the backward pass counts as I.
std::map<TensorId, Phase> origins(const Graph& graph) {
  std::map<TensorId, Phase> origin;
  for (const Operator& op : graph.operators)
    for (const TensorId id : op.writes) origin.emplace(id, op.phase);
  origin.emplace(graph.input, Phase::F);
  origin.emplace(graph.output_gradient, Phase::I);
  return origin;
}

// Lifetimes of tensors within one slot, in operators launched since its start.
class Lifetimes {
 public:
  using Key = std::tuple<bool, std::uint16_t, TensorId>;  // of the forward micro-batch, tensor
  struct Life {
    int begin = 0, end = 0;
    Bytes bytes;
  };

  Lifetimes(const StepProgram& program, const SlotTemplate& slot) : program_(program), slot_(slot) {
    if (slot.f_stage_kind >= 0) forward_.emplace(program, slot.f_stage_kind);
    if (slot.b_stage_kind >= 0) backward_.emplace(program, slot.b_stage_kind);
    for (const Segment& segment : slot.segments) add(segment);
    keep_what_leaves();
  }

  Bytes peak() const {
    std::vector<Bytes> change(static_cast<std::size_t>(clock_) + 1);
    for (const auto& [key, life] : lives_) {
      change[static_cast<std::size_t>(life.begin)] += life.bytes;
      change[static_cast<std::size_t>(life.end) + 1] -= life.bytes;
    }
    Bytes now, peak;
    for (const Bytes& step : change) peak = std::max(peak, now += step);
    return peak;
  }

 private:
  struct Side {
    Side(const StepProgram& program, std::int32_t kind) : view(program, kind), held(stage_activations(program, kind)) {}
    StageView view;
    StageActivations held;
  };

  void add(const Segment& segment) {
    const Side& side = segment.forward_side ? *forward_ : *backward_;
    const Graph& graph = program_.blocks[segment.block];
    for (const std::uint16_t index : segment.operators) {
      const Operator& op = graph.operators[index];
      for (const TensorId id : op.reads) touch(side, segment, id, 0);
      for (const TensorId id : op.writes) touch(side, segment, id, clock_);
      ++clock_;
    }
  }

  // A tensor that nobody wrote before it is read came in from a neighbour when the slot began.
  void touch(const Side& side, const Segment& segment, TensorId id, int begin) {
    const StageTensor tensor = side.view.writer(segment.block_of_stage, id);
    if (!side.view.is_activation(tensor) || is_held(side, tensor)) return;
    const auto key = Key{segment.forward_side, tensor.first, tensor.second};
    Life& life = lives_.try_emplace(key, Life{begin, clock_, side.view.tensor(tensor).bytes()}).first->second;
    life.end = clock_;
  }

  bool is_held(const Side& side, StageTensor tensor) const {
    const bool split = slot_.type == OpType::I || slot_.type == OpType::W;
    return side.held.forward.contains(tensor) || (split && side.held.input_gradient.contains(tensor));
  }

  void keep_what_leaves() {
    const auto extend = [this](bool forward_side, StageTensor tensor) {
      const auto life = lives_.find(Key{forward_side, tensor.first, tensor.second});
      if (life != lives_.end()) life->second.end = clock_ - 1;
    };
    if (forward_) {
      const auto last = static_cast<std::uint16_t>(forward_->view.size() - 1);
      extend(true, forward_->view.writer(last, forward_->view.graph(last).output));
    }
    if (backward_) extend(false, backward_->view.writer(0, backward_->view.graph(0).input_gradient));
  }

  const StepProgram& program_;
  const SlotTemplate& slot_;
  std::optional<Side> forward_, backward_;
  std::map<Key, Life> lives_;
  int clock_ = 0;
};

void apply(const HeldChange& change, Bytes& held, Bytes& peak) {
  peak = std::max(peak, held += change.take);
  held -= change.release;
}

std::vector<HeldChange> backward_steps(OpType type, const StageActivations& of) {
  if (type == OpType::I) return of.input_gradient_steps;
  if (type == OpType::W) return {{Bytes(0), of.input_gradient_bytes + of.forward_until_weight_gradient}};
  return {{Bytes(0), of.forward_bytes}};
}

Bytes largest_batch(const StepProgram& program, std::size_t rank) {
  Bytes largest;
  for (const std::vector<Hop>& batch : program.batches[rank]) {
    Bytes sum;
    for (const Hop& hop : batch) sum += hop.forward ? program.activation_hop : program.gradient_hop;
    largest = std::max(largest, sum);
  }
  return largest;
}

}  // namespace

StageActivations stage_activations(const StepProgram& program, std::int32_t stage_kind) {
  const StageView view(program, stage_kind);
  StageActivations held;
  std::set<StageTensor> until_weight_gradient;
  for (std::uint16_t position = 0; position < view.size(); ++position) {
    const Graph& graph = view.graph(position);
    const std::map<TensorId, Phase> origin = origins(graph);
    for (const Operator& op : graph.operators) {
      if (op.phase == Phase::F) continue;
      for (const TensorId id : op.reads) {
        const StageTensor tensor = view.writer(position, id);
        if (!view.is_activation(tensor)) continue;
        const Phase written = origin.at(id);
        if (written == Phase::F) held.forward.insert(tensor);
        if (written == Phase::F && op.phase == Phase::W) until_weight_gradient.insert(tensor);
        if (written == Phase::I && op.phase == Phase::W) held.input_gradient.insert(tensor);
      }
    }
  }
  held.forward_bytes = view.bytes(held.forward);
  held.forward_until_weight_gradient = view.bytes(until_weight_gradient);
  held.input_gradient_bytes = view.bytes(held.input_gradient);
  held.input_gradient_steps.resize(view.size());
  const auto step_of = [&](StageTensor tensor) -> HeldChange& {
    return held.input_gradient_steps[view.size() - 1u - tensor.first];
  };
  for (const StageTensor& tensor : held.input_gradient) step_of(tensor).take += view.tensor(tensor).bytes();
  for (const StageTensor& tensor : held.forward)
    if (!until_weight_gradient.contains(tensor)) step_of(tensor).release += view.tensor(tensor).bytes();
  return held;
}

Bytes peak_activations(const StepProgram& program, std::size_t rank) {
  std::vector<StageActivations> kinds;
  for (std::size_t kind = 0; kind < program.stage_kinds.size(); ++kind)
    kinds.push_back(stage_activations(program, static_cast<std::int32_t>(kind)));
  const auto of_stage = [&](std::int32_t stage) -> const StageActivations& {
    return kinds[program.stages[stage].kind];
  };
  Bytes held, peak;
  for (const ScheduleOp& op : program.schedule.ranks[rank]) {
    if (op.f_stage >= 0) apply({of_stage(op.f_stage).forward_bytes, Bytes(0)}, held, peak);
    if (op.b_stage < 0) continue;
    for (const HeldChange& step : backward_steps(op.type, of_stage(op.b_stage))) apply(step, held, peak);
  }
  return peak;
}

Bytes peak_buffers(const StepProgram& program, std::size_t rank) {
  Bytes largest;
  const std::vector<std::uint16_t>& used = program.slot_templates[rank];
  for (const std::uint16_t index : std::set<std::uint16_t>(used.begin(), used.end()))
    largest = std::max(largest, Lifetimes(program, program.templates[index]).peak());
  return largest + largest_batch(program, rank);
}

}  // namespace plumbline::model
