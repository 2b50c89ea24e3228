#include "model/program/stage_library.h"

#include "model/graph/offload.h"
#include "model/memory/slot_memory.h"
#include "model/program/plan_context.h"

namespace plumbline::model {

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
