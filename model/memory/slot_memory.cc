#include "model/memory/slot_memory.h"

#include <algorithm>
#include <optional>

namespace plumbline::model {

namespace {

enum class Account { activations, temporary, communication };

// One micro-batch of a slot: when its operators touch each tensor of its stage.
class Side {
 public:
  Side(const StageTensors& tensors, OpType type, bool forward)
      : tensors_(tensors), type_(type), forward_(forward), lives_(tensors.size()) {}

  void touch(const Operator& op, std::uint16_t position, std::int32_t clock) {
    // A tensor that is read before anybody wrote it was there when the slot began.
    for (const TensorId id : op.reads) touch(tensors_.index(position, id), 0, clock);
    for (const TensorId id : op.writes) touch(tensors_.index(position, id), clock, clock);
    if (op.kind == OperatorKind::copy_to_host) lives_[tensors_.index(position, op.reads[0])].copied = true;
    if (op.kind == OperatorKind::copy_to_device) lives_[tensors_.index(position, op.writes[0])].copied = true;
  }

  // Calls add(account, from, to, bytes): held while operators from..to run; to = end: and after the slot.
  template <class Add>
  void account(std::int32_t end, const Add& add) const {
    for (std::uint32_t i = 0; i < lives_.size(); ++i) {
      if (lives_[i].first < 0) continue;
      const StageTensor& tensor = tensors_[i];
      if (tensor.kept == Kept::never) continue;
      const bool leaves = i == (forward_ ? tensors_.output() : tensors_.input_gradient());
      const std::int32_t last = leaves ? end - 1 : lives_[i].last;
      const Bytes copied = lives_[i].copied ? tensor.on_host : Bytes();
      const bool before = was_kept(tensor.kept), after = stays(tensor.kept);
      if (copied > Bytes() && before && after)
        add(Account::activations, lives_[i].first, end, copied);
      else if (copied > Bytes())
        add(Account::communication, lives_[i].first, lives_[i].last, copied);
      if (before) {
        if (!after) add(Account::activations, lives_[i].last + 1, end, copied - tensor.bytes);
      } else if (after) {
        add(Account::activations, lives_[i].first, end, tensor.bytes - copied);
      } else {
        add(tensor.exchanged ? Account::communication : Account::temporary, lives_[i].first, last, tensor.bytes);
      }
    }
  }

 private:
  struct Life {
    std::int32_t first = -1, last = -1;
    bool copied = false;  // to the host or back
  };

  void touch(std::uint32_t index, std::int32_t first, std::int32_t clock) {
    Life& life = lives_[index];
    if (life.first < 0) life.first = first;
    life.last = clock;
  }

  // Whether an earlier slot of the micro-batch left the tensor.
  bool was_kept(Kept kept) const {
    if (forward_) return false;
    if (kept == Kept::forward_to_input || kept == Kept::forward_to_weight) return true;
    return kept == Kept::input_gradient_to_weight && type_ == OpType::W;
  }

  // Whether a later slot of the micro-batch needs it.
  bool stays(Kept kept) const {
    if (forward_) return kept == Kept::forward_to_input || kept == Kept::forward_to_weight;
    return type_ == OpType::I && (kept == Kept::forward_to_weight || kept == Kept::input_gradient_to_weight);
  }

  const StageTensors& tensors_;
  OpType type_;
  bool forward_;
  std::vector<Life> lives_;
};

Bytes& of(SlotMoment& moment, Account account) {
  if (account == Account::activations) return moment.activations;
  return account == Account::temporary ? moment.temporary : moment.communication;
}

}  // namespace

SlotMemory slot_memory(const StepProgram& program, const SlotTemplate& slot, const std::vector<StageTensors>& kinds) {
  std::optional<Side> forward, backward;
  if (slot.f_stage_kind >= 0) forward.emplace(kinds[static_cast<std::size_t>(slot.f_stage_kind)], slot.type, true);
  if (slot.b_stage_kind >= 0) backward.emplace(kinds[static_cast<std::size_t>(slot.b_stage_kind)], slot.type, false);
  SlotMemory memory;
  std::size_t operators = 1;  // and what is left after the slot
  for (const Segment& segment : slot.segments) operators += segment.operators.size();
  memory.moments.reserve(operators);
  for (std::size_t s = 0; s < slot.segments.size(); ++s) {
    const Segment& segment = slot.segments[s];
    Side& side = segment.forward_side ? *forward : *backward;
    for (std::size_t o = 0; o < segment.operators.size(); ++o) {
      side.touch(program.blocks[segment.block].operators[segment.operators[o]], segment.block_of_stage,
                 static_cast<std::int32_t>(memory.moments.size()));
      memory.moments.push_back({static_cast<std::uint16_t>(s), static_cast<std::uint16_t>(o), {}, {}, {}});
    }
  }
  // First the changes at each moment, one more for what is left after the slot; then their sums.
  const auto end = static_cast<std::int32_t>(memory.moments.size());
  std::vector<SlotMoment>& moments = memory.moments;
  moments.emplace_back();
  const auto add = [&](Account account, std::int32_t from, std::int32_t to, Bytes bytes) {
    of(moments[static_cast<std::size_t>(from)], account) += bytes;
    if (to < end) of(moments[static_cast<std::size_t>(to) + 1], account) -= bytes;
  };
  for (const auto* side : {&forward, &backward})
    if (*side) (*side)->account(end, add);
  for (std::size_t i = 1; i < moments.size(); ++i)
    for (const Account account : {Account::activations, Account::temporary, Account::communication})
      of(moments[i], account) += of(moments[i - 1], account);
  memory.kept = moments.back().activations;
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

}  // namespace plumbline::model
