#include "model/program/compile.h"

#include <map>
#include <utility>

#include "model/graph/offload.h"
#include "model/memory/slot_memory.h"
#include "model/plan/plan.h"
#include "model/program/data_parallel.h"
#include "model/program/plan_context.h"
#include "model/program/stage_optimizer.h"
#include "model/schedule/transfers.h"

namespace plumbline::model {
namespace {

class Assembler {
 public:
  Assembler(const Plan& plan, const Architecture& architecture, const Layout& layout, StageLibrary& library)
      : plan_(plan), architecture_(architecture), layout_(layout), library_(library) {}

  StepProgram run(Schedule schedule) {
    program_.schedule = std::move(schedule);
    program_.batches = point_to_point_batches(program_.schedule);
    for (std::int64_t stage = 0; stage < layout_.stages; ++stage) add_stage(stage);
    program_.blocks = library_.blocks();
    program_.stage_kinds = library_.program().stage_kinds;
    for (const auto& ops : program_.schedule.ranks) add_rank(ops);
    program_.gather_after_update = plan_.parallelism.zero_stage < 3 && !plan_.overlap.parameter_gather;
    program_.data_parallel = data_parallel(plan_, program_);
    program_.stage_message = library_.p2p();
    return std::move(program_);
  }

 private:
  void add_stage(std::int64_t index) {
    Stage& stage = program_.stages.emplace_back();
    stage.kind = library_.kind(block_list(plan_, architecture_, layout_, index));
    for (const StageBlock& block : stage_blocks(plan_, architecture_, layout_, index))
      stage.layers.push_back(static_cast<std::int32_t>(block.layer));
    const auto [optimizer, fresh] = optimizers_.try_emplace(stage.kind);
    if (fresh) optimizer->second = make_stage_optimizer(plan_, layout_, library_.units(stage.kind, plan_).units);
    program_.stage_optimizers.push_back(optimizer->second.graph);
    program_.stage_units.push_back(optimizer->second.units);
  }

  void add_rank(const std::vector<ScheduleOp>& ops) {
    const auto kind = [&](std::int32_t stage) {
      return stage < 0 ? -1 : program_.stages[static_cast<std::size_t>(stage)].kind;
    };
    std::vector<std::uint16_t>& slots = program_.slot_templates.emplace_back();
    for (const ScheduleOp& op : ops) {
      const std::int32_t slot = library_.slot(op.type, kind(op.f_stage), kind(op.b_stage));
      const auto [known, fresh] = templates_.try_emplace(slot, static_cast<std::uint16_t>(templates_.size()));
      if (fresh) program_.templates.push_back(library_.slot_template(slot));
      slots.push_back(known->second);
    }
  }

  const Plan& plan_;
  const Architecture& architecture_;
  const Layout& layout_;
  StageLibrary& library_;
  StepProgram program_;
  std::map<std::int32_t, StageOptimizer> optimizers_;  // by stage kind
  std::map<std::int32_t, std::uint16_t> templates_;    // by slot of the library
};

}  // namespace

BlockList block_list(const Plan& plan, const Architecture& architecture, const Layout& layout, std::int64_t stage) {
  BlockList blocks;
  for (const StageBlock& block : stage_blocks(plan, architecture, layout, stage))
    blocks.emplace_back(block.kind, block.pass);
  return blocks;
}

StepProgram assemble(const Plan& plan, const Architecture& architecture, const Layout& layout, Schedule schedule,
                     StageLibrary& library) {
  return Assembler(plan, architecture, layout, library).run(std::move(schedule));
}

Result<StepProgram> compile(const Plan& plan, const Architecture& architecture, const Layout& layout) {
  const MixtureOfExperts& experts = architecture.experts;
  const std::int64_t any_node = 1;  // the ranks that a token reaches do not depend on the nodes
  return compile(plan, architecture, layout,
                 routing_spread(experts, groups_per_token(plan, experts), plan.parallelism.expert, any_node));
}

Result<StepProgram> compile(const Plan& plan, const Architecture& architecture, const Layout& layout,
                            const RoutingSpread& spread) {
  const auto kind = TRY(schedule_kind(plan));
  TRY(kind->check(layout.schedule));
  StageLibrary library(plan_context(plan, architecture, layout, spread), plan);
  return assemble(plan, architecture, layout, kind->build(layout.schedule), library);
}

StageLibrary::StageLibrary(LayerContext context, const Plan& plan)
    : context_(std::move(context)),
      overlap_(tensor_overlap(plan)),
      offloaded_(plan.offload.activations),
      p2p_(stage_message_bytes(context_)) {}

std::uint16_t StageLibrary::block(const BlockList::value_type& block) {
  const auto [entry, fresh] = known_blocks_.try_emplace(block, static_cast<std::uint16_t>(program_.blocks.size()));
  if (!fresh) return entry->second;
  program_.blocks.push_back(make_stage_block(block.first, block.second, context_));
  if (offloaded_ > 0) offload(program_.blocks.back(), offloaded_);
  return entry->second;
}

std::int32_t StageLibrary::kind(const BlockList& blocks) {
  const auto known = known_kinds_.find(blocks);
  if (known != known_kinds_.end()) return known->second;
  const auto index = static_cast<std::int32_t>(program_.stage_kinds.size());
  StageKind stage;
  for (const auto& one : blocks) stage.blocks.push_back(block(one));
  program_.stage_kinds.push_back(std::move(stage));
  known_kinds_.emplace(blocks, index);
  return index;
}

std::int32_t StageLibrary::slot(OpType type, std::int32_t f_kind, std::int32_t b_kind) {
  const auto [entry, fresh] =
      known_slots_.try_emplace({type, f_kind, b_kind}, static_cast<std::int32_t>(slots_.size()));
  if (!fresh) return entry->second;
  auto slot = std::make_unique<Slot>();
  slot->slot = make_slot_template(type, f_kind, b_kind, program_.stage_kinds, program_.blocks, overlap_);
  slots_.push_back(std::move(slot));
  return entry->second;
}

const UnitPlaces& StageLibrary::units(std::int32_t kind, const Plan& plan) {
  const bool by_block = plan.parallelism.zero_stage == 3;
  const double bucket = by_block ? 0 : plan.overlap.gradient_bucket_bytes;
  const auto [entry, fresh] = units_.try_emplace({kind, by_block, bucket});
  UnitPlaces& known = entry->second;
  if (!fresh) return known;
  known.units = stage_units(plan, blocks(), stage(kind));
  for (const StageUnit& unit : known.units)
    known.places.push_back({.parameters = unit.parameters, .gradients = unit.gradients});
  return known;
}

const std::vector<SegmentSpan>& StageLibrary::spans(std::int32_t slot, bool forward, const UnitPlaces& units,
                                                    bool writing) {
  const auto [entry, fresh] = spans_.try_emplace({slot, forward, &units, writing});
  if (fresh) entry->second = segment_spans(blocks(), slot_template(slot), forward, units.places, writing);
  return entry->second;
}

const std::vector<StageTensors>& StageLibrary::tensors() const {
  while (tensors_.size() < program_.stage_kinds.size()) {
    const StageTensors& stage = tensors_.emplace_back(program_, static_cast<std::int32_t>(tensors_.size()));
    kept_.emplace_back(stage.kept_after_forward(), stage.kept_for_weights());
  }
  return tensors_;
}

Bytes StageLibrary::fullest(std::int32_t slot) const {
  Slot& known = *slots_[static_cast<std::size_t>(slot)];
  if (!known.fullest) {
    const SlotMemory memory = slot_memory(program_, known.slot, tensors());
    known.fullest = memory.moments.empty() ? Bytes() : memory.moments[memory.fullest].sum();
  }
  return *known.fullest;
}

Bytes StageLibrary::kept_after_forward(std::int32_t kind) const {
  tensors();
  return kept_[static_cast<std::size_t>(kind)].first;
}

Bytes StageLibrary::kept_for_weights(std::int32_t kind) const {
  tensors();
  return kept_[static_cast<std::size_t>(kind)].second;
}

}  // namespace plumbline::model
