#include "model/memory/detail/memory_timeline.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/schedule/transfers.h"

namespace plumbline::model {
namespace {

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
