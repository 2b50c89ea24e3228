#include "sim/predict/cached_stages.h"

#include <algorithm>

#include "model/memory/training_state.h"
#include "model/program/slot_template.h"
#include "model/program/stage_optimizer.h"
#include "model/program/synchronisation.h"
#include "sim/step/optimizer_timing.h"
#include "sim/step/segment_time.h"

namespace plumbline::sim {

namespace {

bool writes_gradients(model::OpType type) {
  return type == model::OpType::B || type == model::OpType::W || type == model::OpType::FB;
}

}  // namespace

StageLibrary::StageLibrary(model::LayerContext context, std::int64_t pieces)
    : context_(std::move(context)), pieces_(pieces), hop_(model::hop_bytes(context_)) {}

std::uint16_t StageLibrary::block(const std::pair<model::BlockKind, bool>& block) {
  const auto [entry, fresh] = known_blocks_.try_emplace(block, static_cast<std::uint16_t>(program_.blocks.size()));
  if (fresh) program_.blocks.push_back(model::make_stage_block(block.first, block.second, context_));
  return entry->second;
}

std::int32_t StageLibrary::kind(const BlockList& blocks) {
  const auto known = known_kinds_.find(blocks);
  if (known != known_kinds_.end()) return known->second;
  const auto index = static_cast<std::int32_t>(program_.stage_kinds.size());
  model::StageKind& stage = program_.stage_kinds.emplace_back();
  for (const auto& one : blocks) stage.blocks.push_back(block(one));
  const model::StageTensors& tensors = tensors_.emplace_back(program_, index);
  kept_.emplace_back(tensors.kept_after_forward(), tensors.kept_for_weights());
  known_kinds_.emplace(blocks, index);
  return index;
}

std::int32_t StageLibrary::slot(model::OpType type, std::int32_t f_kind, std::int32_t b_kind) {
  const auto [entry, fresh] =
      known_slots_.try_emplace({type, f_kind, b_kind}, static_cast<std::int32_t>(slots_.size()));
  if (!fresh) return entry->second;
  auto slot = std::make_unique<Slot>();
  slot->slot = model::make_slot_template(type, f_kind, b_kind, program_.stage_kinds, program_.blocks, pieces_);
  const model::SlotMemory memory = model::slot_memory(program_, slot->slot, tensors_);
  if (!memory.moments.empty()) slot->fullest = memory.moments[memory.fullest].sum();
  slots_.push_back(std::move(slot));
  return entry->second;
}

const UnitPlaces& StageLibrary::units(std::int32_t kind, const model::Plan& plan) {
  const bool by_block = plan.parallelism.zero_stage == 3;
  const double bucket = by_block ? 0 : plan.overlap.gradient_bucket_bytes;
  const auto [entry, fresh] = units_.try_emplace({kind, by_block, bucket});
  UnitPlaces& known = entry->second;
  if (!fresh) return known;
  known.units = model::stage_units(plan, blocks(), stage(kind));
  for (const model::StageUnit& unit : known.units)
    known.places.push_back({.parameters = unit.parameters, .gradients = unit.gradients});
  return known;
}

const std::vector<model::SegmentSpan>& StageLibrary::spans(std::int32_t slot, bool forward, const UnitPlaces& units,
                                                           bool writing) {
  const auto [entry, fresh] = spans_.try_emplace({slot, forward, &units, writing});
  if (fresh) entry->second = model::segment_spans(blocks(), slot_template(slot), forward, units.places, writing);
  return entry->second;
}

const OptimizerTiming& OptimizerTimings::of(const std::vector<model::StageUnit>& units, const model::Plan& plan,
                                            const model::Layout& layout, const CostModels& costs) {
  add_sharding(plan, layout, key_.clear().add(&costs));
  for (const model::StageUnit& unit : units) {
    key_.add(unit.expert, unit.pieces.size());
    for (const auto& [stored, elements, whole] : unit.pieces) key_.add(stored, elements, whole);
  }
  std::unique_ptr<OptimizerTiming>& known = known_[key_.bytes()];
  if (known) return *known;
  const model::StageOptimizer optimizer = model::make_stage_optimizer(plan, layout, units);
  known = std::make_unique<OptimizerTiming>(optimizer_timing(optimizer.graph, optimizer.units, costs));
  return *known;
}

TimedStages::TimedStages(StageLibrary& library, const CostModels& costs, Imbalance imbalance, std::int64_t ranks)
    : library_(library),
      costs_(costs),
      timer_(library.program(), costs),
      imbalance_(std::move(imbalance)),
      ranks_(ranks),
      even_(ranks == 1 || imbalance_.even()) {}

const TimedStages::Timed& TimedStages::timed(std::int32_t slot) {
  std::unique_ptr<Timed>& known = runs_[slot];
  if (known) return *known;
  known = std::make_unique<Timed>();
  const model::SlotTemplate& whole = library_.slot_template(slot);
  std::vector<SegmentTime> times = timer_.times(whole);
  if (!even_) {
    Imbalance imbalance = imbalance_;
    imbalance.seed = slot_seed(whole.type);
    known->waits = run_group(whole, times, ranks_, costs_.partition.device_sms, imbalance).waits;
    for (std::size_t s = 0; s < times.size(); ++s) times[s].wait = known->waits[s];
  }
  known->run = run_template(whole, times, costs_.partition.device_sms);
  return *known;
}

const TemplateRun& TimedStages::run(std::int32_t slot) { return timed(slot).run; }

std::vector<SegmentTime> TimedStages::times(std::int32_t slot) {
  const std::vector<double>& waits = timed(slot).waits;
  std::vector<SegmentTime> times = timer_.times(library_.slot_template(slot));
  for (std::size_t s = 0; s < waits.size(); ++s) times[s].wait = waits[s];
  return times;
}

ShardedStages::ShardedStages(TimedStages& timed, OptimizerTimings& timings, const model::Plan& plan,
                             const model::Layout& layout)
    : timed_(timed), timings_(timings), plan_(plan), layout_(layout) {}

const ShardedStages::Stage& ShardedStages::stage(std::int32_t kind) {
  const auto [entry, fresh] = stages_.try_emplace(kind);
  if (!fresh) return entry->second;
  const UnitPlaces& units = timed_.stage_library().units(kind, plan_);
  entry->second = {&units, &timings_.of(units.units, plan_, layout_, timed_.costs())};
  return entry->second;
}

const ShardedStages::State& ShardedStages::state(const std::vector<std::int32_t>& kinds) {
  const auto [entry, fresh] = states_.try_emplace(kinds);
  State& state = entry->second;
  if (!fresh) return state;
  std::vector<model::StageParameters> parameters;
  const bool gathers = plan_.parallelism.zero_stage < 3 && !plan_.overlap.parameter_gather;
  for (const std::int32_t kind : kinds) {
    const Stage& held = stage(kind);
    parameters.push_back({&timed_.stage_library().stage(kind), &held.units->places});
    state.work.add(*held.timing, gathers);
    state.average += held.timing->average;
  }
  const model::TrainingState whole = model::training_state(plan_, layout_, timed_.stage_library().blocks(), parameters);
  const model::Bytes gradients = whole.experts.gradients + whole.others.gradients;
  state.gradients = gradients;
  state.bytes = (whole.experts.parameters + whole.others.parameters).value() + gradients.value() +
                (whole.experts.optimizer + whole.others.optimizer).value();
  return state;
}

const SlotSync& ShardedStages::sync(std::int32_t slot, const TemplateRun& run) {
  std::unique_ptr<SlotSync>& known = syncs_[{slot, &run}];
  if (known) return *known;
  known = std::make_unique<SlotSync>();
  add_reduces(slot, run, *known);
  add_gathers(slot, *known);
  return *known;
}

void ShardedStages::add_reduces(std::int32_t slot, const TemplateRun& run, SlotSync& sync) {
  const model::SlotTemplate& whole = timed_.stage_library().slot_template(slot);
  if (!writes_gradients(whole.type)) return;
  const Stage& written = stage(whole.b_stage_kind);
  const std::vector<UnitTiming>& timings = written.timing->units;
  std::vector<model::SegmentSpan> spans(timings.size());
  if (plan_.overlap.gradient_reduce) spans = timed_.stage_library().spans(slot, false, *written.units, true);
  for (std::size_t u = 0; u < timings.size(); ++u)
    sync.reduces.push_back({spans[u].last, timings[u].reduce, timings[u].copy});
  std::ranges::stable_sort(sync.reduces, {},
                           [](const SlotSync::Part& part) { return part.segment < 0 ? INT32_MAX : part.segment; });
  for (auto part = sync.reduces.rbegin(); part != sync.reduces.rend(); ++part) {
    sync.reduce_seconds += part->seconds;
    const double at =
        part->segment < 0 ? run.seconds : to_seconds(run.segments[static_cast<std::size_t>(part->segment)].end);
    sync.reduce_tail = std::max(sync.reduce_tail, at + sync.reduce_seconds);
  }
}

void ShardedStages::add_uses(std::int32_t slot, bool forward, SlotSync& sync) {
  const model::SlotTemplate& whole = timed_.stage_library().slot_template(slot);
  const Stage& read = stage(forward ? whole.f_stage_kind : whole.b_stage_kind);
  const auto& spans = timed_.stage_library().spans(slot, forward, *read.units, false);
  for (std::size_t u = 0; u < spans.size(); ++u)
    if (spans[u].first >= 0)
      sync.uses.push_back(
          {forward, static_cast<std::int32_t>(u), spans[u].first, spans[u].last, read.timing->units[u].gather});
}

void ShardedStages::add_gathers(std::int32_t slot, SlotSync& sync) {
  const model::SlotTemplate& whole = timed_.stage_library().slot_template(slot);
  if (plan_.parallelism.zero_stage == 3) {
    if (whole.f_stage_kind >= 0) add_uses(slot, true, sync);
    if (whole.b_stage_kind >= 0 && whole.type != model::OpType::W) add_uses(slot, false, sync);
    std::ranges::stable_sort(sync.uses, {}, &SlotSync::Use::first);
    return;
  }
  if (whole.f_stage_kind < 0 || plan_.parallelism.zero_stage == 0 || !plan_.overlap.parameter_gather) return;
  const Stage& read = stage(whole.f_stage_kind);
  const auto& spans = timed_.stage_library().spans(slot, true, *read.units, false);
  for (std::size_t u = 0; u < spans.size(); ++u)
    sync.gathers.push_back({spans[u].first, read.timing->units[u].gather, 0});
  std::ranges::stable_sort(sync.gathers, {}, &SlotSync::Part::segment);
}

}  // namespace plumbline::sim
