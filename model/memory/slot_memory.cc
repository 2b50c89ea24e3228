#include "model/memory/slot_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/schedule/schedule.h"

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

namespace {

enum class Account { activations, temporary, communication };

// One side of a slot: the tensors of one micro-batch.
class Side {
 public:
  Side(const StageTensors& tensors, OpType type, bool forward, const std::vector<SlotUse>& uses)
      : tensors_(tensors), type_(type), forward_(forward), uses_(uses) {}

  // Calls add(tensor, account, from, to, bytes) for each tensor held during operators from..to; to = end: and after the
  // slot.
  template <class Add>
  void account(std::int32_t end, const Add& add) const {
    for (std::uint32_t i = 0; i < uses_.size(); ++i) {
      const auto& [first, last, is_copied, stream] = uses_[i];
      if (first < 0) continue;
      const StageTensor& tensor = tensors_[i];
      if (tensor.lifetime == Lifetime::never) continue;
      const bool leaves = i == (forward_ ? tensors_.output() : tensors_.input_gradient());
      const Bytes copied = is_copied ? tensor.on_host : Bytes();
      const bool before = was_kept(tensor.lifetime), after = stays(tensor.lifetime);
      if (copied > Bytes() && before && after)
        add(tensor, Account::activations, first, end, copied);
      else if (copied > Bytes())
        add(tensor, Account::communication, first, last, copied);
      if (before) {
        if (!after) add(tensor, Account::activations, last + 1, end, copied - tensor.bytes);
      } else if (after) {
        add(tensor, Account::activations, first, end, tensor.bytes - copied);
      } else {
        add(tensor, tensor.received ? Account::communication : Account::temporary, first, leaves ? end - 1 : last,
            tensor.bytes);
      }
    }
  }

 private:
  // Returns whether an earlier slot of the micro-batch left the tensor.
  bool was_kept(Lifetime lifetime) const {
    if (forward_) return false;
    if (lifetime == Lifetime::forward_to_input || lifetime == Lifetime::forward_to_weight) return true;
    return lifetime == Lifetime::input_gradient_to_weight && type_ == OpType::W;
  }

  // Returns whether a later slot of the micro-batch needs the tensor.
  bool stays(Lifetime lifetime) const {
    if (forward_) return lifetime == Lifetime::forward_to_input || lifetime == Lifetime::forward_to_weight;
    return type_ == OpType::I &&
           (lifetime == Lifetime::forward_to_weight || lifetime == Lifetime::input_gradient_to_weight);
  }

  const StageTensors& tensors_;
  OpType type_;
  bool forward_;
  const std::vector<SlotUse>& uses_;
};

Bytes& of(SlotMoment& moment, Account account) {
  if (account == Account::activations) return moment.activations;
  return account == Account::temporary ? moment.temporary : moment.communication;
}

void use(SlotUse& use, std::int32_t first, std::int32_t last, Stream stream) {
  if (use.first < 0) {
    use.first = first;
    use.only_stream = stream;
  }
  use.last = last;
  if (use.only_stream != stream) use.only_stream.reset();
}

// Calls at(moment, slot) while the messages before an op travel (slot = nullptr), then while the op runs, with the
// level to which the moments of its slot are added; the last call is for the end of the step.
template <class At>
void walk(const StepProgram& program, const std::vector<SlotMemory>& slots, std::size_t rank, const At& at) {
  const std::vector<std::uint16_t>& templates = program.slot_templates[rank];
  Bytes kept, routed;
  walk_messages(program.schedule, rank, program.batches[rank], [&](std::size_t k, bool travel, std::int32_t messages) {
    const SlotMemory* slot = travel || k == templates.size() ? nullptr : &slots[templates[k]];
    at(MemoryMoment{static_cast<std::int32_t>(k), travel, 0, kept, Bytes(), program.stage_message * messages, kept,
                    routed},
       slot);
    if (slot == nullptr) return;
    kept += slot->kept;
    routed += slot->kept_routed;
  });
}

MemoryMoment with(MemoryMoment moment, const SlotMemory& slot, std::size_t index) {
  const SlotMoment& within = slot.moments[index];
  moment.slot_moment = static_cast<std::uint32_t>(index);
  moment.activations += within.activations;
  moment.temporary += within.temporary;
  moment.communication += within.communication;
  moment.routed += within.routed;
  return moment;
}

std::string block_name(const StepProgram& program, const SlotTemplate& slot, const Segment& segment,
                       const ScheduleOp& op) {
  const std::int32_t stage = segment.forward_side ? op.f_stage : op.b_stage;
  const StageKind& kind =
      program.stage_kinds[static_cast<std::size_t>(segment.forward_side ? slot.f_stage_kind : slot.b_stage_kind)];
  const std::string& name = program.blocks[kind.blocks[segment.block_of_stage]].name;
  const std::vector<std::int32_t>& layers = program.stages[static_cast<std::size_t>(stage)].layers;
  const std::int32_t layer = segment.block_of_stage < layers.size() ? layers[segment.block_of_stage] : -1;
  return layer < 0 ? name : fmt::format("layer {}", layer);
}

std::string op_name(const ScheduleOp& op) {
  if (op.type == OpType::FB) return fmt::format("FB of micro-batches {} and {}", op.f_mb, op.b_mb);
  return fmt::format("{} of micro-batch {}", to_string(op.type), op.type == OpType::F ? op.f_mb : op.b_mb);
}

}  // namespace

SlotMemory slot_memory(const StepProgram& program, const SlotTemplate& slot, const std::vector<StageTensors>& kinds) {
  const auto tensors_of = [&](std::int32_t kind) {
    return kind < 0 ? nullptr : &kinds[static_cast<std::size_t>(kind)];
  };
  const StageTensors* const forward = tensors_of(slot.f_stage_kind);
  const StageTensors* const backward = tensors_of(slot.b_stage_kind);
  const SlotUses uses = slot_uses(program.blocks, slot, forward, backward);
  SlotMemory memory;
  memory.moments.reserve(uses.operators + 1);  // one more for what remains after the slot
  for (std::size_t s = 0; s < slot.segments.size(); ++s)
    for (std::size_t o = 0; o < slot.segments[s].operators.size(); ++o)
      memory.moments.push_back({static_cast<std::uint16_t>(s), static_cast<std::uint16_t>(o), {}, {}, {}, {}});
  // The changes at each moment come first, with one more entry for what remains after the slot; then they are summed.
  const auto end = static_cast<std::int32_t>(memory.moments.size());
  std::vector<SlotMoment>& moments = memory.moments;
  moments.emplace_back();
  const auto add = [&](const StageTensor& tensor, Account account, std::int32_t from, std::int32_t to, Bytes bytes) {
    const auto change = [&](SlotMoment& moment, Bytes by) {
      of(moment, account) += by;
      if (tensor.routed) moment.routed += by;
    };
    change(moments[static_cast<std::size_t>(from)], bytes);
    if (to < end) change(moments[static_cast<std::size_t>(to) + 1], Bytes() - bytes);
  };
  if (forward != nullptr) Side(*forward, slot.type, true, uses.forward).account(end, add);
  if (backward != nullptr) Side(*backward, slot.type, false, uses.backward).account(end, add);
  for (std::size_t i = 1; i < moments.size(); ++i) {
    for (const Account account : {Account::activations, Account::temporary, Account::communication})
      of(moments[i], account) += of(moments[i - 1], account);
    moments[i].routed += moments[i - 1].routed;
  }
  memory.kept = moments.back().activations;
  memory.kept_routed = moments.back().routed;
  for (const SlotMoment& moment : moments) memory.most_kept = std::max(memory.most_kept, moment.activations);
  moments.pop_back();
  const auto fullest = std::ranges::max_element(moments, {}, &SlotMoment::sum);
  if (fullest != moments.end()) memory.fullest = static_cast<std::size_t>(fullest - moments.begin());
  return memory;
}

std::vector<SlotMemory> slot_memories(const StepProgram& program) {
  std::vector<StageTensors> kinds;
  for (std::size_t kind = 0; kind < program.stage_kinds.size(); ++kind)
    kinds.emplace_back(program, static_cast<std::int32_t>(kind));
  std::vector<SlotMemory> memories;
  for (const SlotTemplate& slot : program.templates) memories.push_back(slot_memory(program, slot, kinds));
  return memories;
}

SlotUses slot_uses(const std::vector<Graph>& blocks, const SlotTemplate& slot, const StageTensors* forward,
                   const StageTensors* backward) {
  SlotUses uses;
  if (forward != nullptr) uses.forward.resize(forward->size());
  if (backward != nullptr) uses.backward.resize(backward->size());
  for (const Segment& segment : slot.segments) {
    const StageTensors& tensors = segment.forward_side ? *forward : *backward;
    std::vector<SlotUse>& side = segment.forward_side ? uses.forward : uses.backward;
    const auto of = [&](TensorId id) -> SlotUse& { return side[tensors.index(segment.block_of_stage, id)]; };
    for (const std::uint16_t index : segment.operators) {
      const Operator& op = blocks[segment.block].operators[index];
      const auto now = static_cast<std::int32_t>(uses.operators++);
      for (const TensorId id : op.reads) use(of(id), 0, now, segment.stream);
      for (const TensorId id : op.writes) use(of(id), now, now, segment.stream);
      if (op.kind == OperatorKind::copy_to_host) of(op.reads[0]).copied = true;
      if (op.kind == OperatorKind::copy_to_device) of(op.writes[0]).copied = true;
    }
  }
  return uses;
}

MemoryTimeline memory_timeline(const StepProgram& program, const std::vector<SlotMemory>& slots, std::size_t rank) {
  MemoryTimeline timeline;
  timeline.ops.reserve(program.schedule.ranks[rank].size() + 1);
  Bytes fullest;
  const auto keep = [&](const MemoryMoment& moment) {
    std::vector<MemoryMoment>& ops = timeline.ops;
    if (ops.empty() || ops.back().op != moment.op)
      ops.push_back(moment);
    else if (moment.sum() > ops.back().sum())
      ops.back() = moment;
    if (ops.size() > 1 && ops.back().sum() <= fullest) return;
    fullest = ops.back().sum();
    timeline.fullest = ops.size() - 1;
  };
  walk(program, slots, rank, [&](const MemoryMoment& level, const SlotMemory* slot) {
    timeline.activations_peak = std::max(timeline.activations_peak, level.activations);
    timeline.left = level.sum();
    if (slot == nullptr || slot->moments.empty()) return keep(level);
    timeline.activations_peak = std::max(timeline.activations_peak, level.activations + slot->most_kept);
    keep(with(level, *slot, slot->fullest));
  });
  return timeline;
}

std::vector<MemoryMoment> memory_within(const StepProgram& program, const std::vector<SlotMemory>& slots,
                                        std::size_t rank, std::int32_t op) {
  std::vector<MemoryMoment> moments;
  walk(program, slots, rank, [&](const MemoryMoment& level, const SlotMemory* slot) {
    if (level.op != op) return;
    if (slot == nullptr) return moments.push_back(level);
    for (std::size_t i = 0; i < slot->moments.size(); ++i) moments.push_back(with(level, *slot, i));
  });
  return moments;
}

std::string describe(const StepProgram& program, const std::vector<SlotMemory>& slots, std::size_t rank,
                     const MemoryMoment& moment) {
  const std::vector<ScheduleOp>& ops = program.schedule.ranks[rank];
  const auto k = static_cast<std::size_t>(moment.op);
  if (k >= ops.size()) return moment.messages ? "messages after the last op" : "end of the step";
  if (moment.messages) return "messages before " + op_name(ops[k]);
  const std::uint16_t index = program.slot_templates[rank][k];
  const SlotTemplate& slot = program.templates[index];
  if (slots[index].moments.empty()) return op_name(ops[k]);
  const SlotMoment& within = slots[index].moments[moment.slot_moment];
  const Segment& segment = slot.segments[within.segment];
  const Operator& running = program.blocks[segment.block].operators[segment.operators[within.operator_index]];
  return fmt::format("{} of {} in {}", running.name, block_name(program, slot, segment, ops[k]), op_name(ops[k]));
}

}  // namespace plumbline::model
