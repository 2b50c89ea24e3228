#include "model/memory/memory_timeline.h"

#include <fmt/format.h>

#include <algorithm>

namespace plumbline::model {

namespace {

// The messages of one op that come from another stage and go to one, and whether that lies on the same rank.
struct Traffic {
  Bytes from_ranks, to_ranks;          // other ranks
  Bytes from_neighbour, to_neighbour;  // another stage here
};

class Walk {
 public:
  Walk(const StepProgram& program, const std::vector<SlotMemory>& slots, std::size_t rank)
      : program_(program), slots_(slots), rank_(rank), eager_(program.schedule.point_to_point == PointToPoint::eager) {}

  // Calls at(moment, within): the rank while the messages before an op travel (within = nullptr), then while the op
  // runs, at the level on top of which the moments of its slot come; at last after all ops.
  template <class At>
  void run(const At& at) {
    const auto& ops = program_.schedule.ranks[rank_];
    for (std::size_t k = 0; k < ops.size(); ++k) {
      travel(k, at);
      const Traffic traffic = traffic_of(ops[k]);
      const SlotMemory& slot = slots_[program_.slot_templates[rank_][k]];
      waiting_ -= traffic.from_ranks + traffic.from_neighbour;
      at(level(k, false), &slot);
      kept_ += slot.kept;
      waiting_ += traffic.to_neighbour;
      leaving_ += traffic.to_ranks;
      if (eager_) leaving_ -= sent(k);
    }
    travel(ops.size(), at);
    if (eager_) leaving_ -= sent(ops.size());
    at(level(ops.size(), false), nullptr);
  }

 private:
  Bytes size_of(const Hop& hop) const { return hop.forward ? program_.activation_hop : program_.gradient_hop; }

  Bytes sent(std::size_t batch) const {
    Bytes sum;
    for (const Hop& hop : program_.batches[rank_][batch])
      if (hop.send) sum += size_of(hop);
    return sum;
  }

  template <class At>
  void travel(std::size_t batch, const At& at) {
    const auto& hops = program_.batches[rank_][batch];
    for (const Hop& hop : hops)
      if (!hop.send) waiting_ += size_of(hop);
    if (!hops.empty()) at(level(batch, true), nullptr);
    if (!eager_) leaving_ -= sent(batch);
  }

  MemoryMoment level(std::size_t op, bool messages) const {
    return {static_cast<std::int32_t>(op), messages, 0, kept_, Bytes(), waiting_ + leaving_};
  }

  Traffic traffic_of(const ScheduleOp& op) const {
    Traffic traffic;
    const auto add = [&](std::int32_t direction, std::int32_t other, Bytes bytes, Bytes& near, Bytes& far) {
      if (other < 0 || other >= program_.schedule.stages) return;
      const bool here = program_.schedule.rank_of(direction, other) == static_cast<std::int32_t>(rank_);
      (here ? near : far) += bytes;
    };
    if (op.type == OpType::F || op.type == OpType::FB) {
      add(op.f_dir, op.f_stage - 1, program_.activation_hop, traffic.from_neighbour, traffic.from_ranks);
      add(op.f_dir, op.f_stage + 1, program_.activation_hop, traffic.to_neighbour, traffic.to_ranks);
    }
    if (op.type != OpType::F && op.type != OpType::W) {
      add(op.b_dir, op.b_stage + 1, program_.gradient_hop, traffic.from_neighbour, traffic.from_ranks);
      add(op.b_dir, op.b_stage - 1, program_.gradient_hop, traffic.to_neighbour, traffic.to_ranks);
    }
    return traffic;
  }

  const StepProgram& program_;
  const std::vector<SlotMemory>& slots_;
  std::size_t rank_;
  bool eager_;
  Bytes kept_;               // activations
  Bytes waiting_, leaving_;  // messages received, and to send
};

MemoryMoment with(MemoryMoment moment, const SlotMemory& slot, std::size_t index) {
  const SlotMoment& within = slot.moments[index];
  moment.slot_moment = static_cast<std::uint32_t>(index);
  moment.activations += within.activations;
  moment.temporary += within.temporary;
  moment.communication += within.communication;
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
  Walk(program, slots, rank).run([&](const MemoryMoment& level, const SlotMemory* slot) {
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
  Walk(program, slots, rank).run([&](const MemoryMoment& level, const SlotMemory* slot) {
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
