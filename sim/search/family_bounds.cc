#include "sim/search/family_bounds.h"

#include <algorithm>

#include "model/layout.h"
#include "model/plan_context.h"
#include "sim/routing_memo.h"

namespace plumbline::sim {

namespace {

using model::OpType;

constexpr std::size_t index(OpType type) { return static_cast<std::size_t>(type); }

model::LayerContext context_of(const Inputs& inputs, const model::Plan& plan) {
  const model::Layout layout = *model::make_layout(plan, inputs.architecture);
  const model::RoutingSpread spread =
      spread_of(plan, inputs.architecture.experts, inputs.cluster.gpus_per_node, inputs.routing.get());
  return model::plan_context(plan, inputs.architecture, layout, spread);
}

}  // namespace

StageLists stage_lists(const model::Plan& plan, const model::Architecture& architecture, std::int64_t stages) {
  model::Layout layout;
  layout.stages = stages;
  const std::vector<std::int64_t> counts = plan.schedule.layers_per_stage.empty()
                                               ? model::even_layer_counts(architecture.layers, stages)
                                               : plan.schedule.layers_per_stage;
  std::int64_t next = 0;
  for (const std::int64_t count : counts) {
    std::vector<std::int64_t>& layers = layout.stage_layers.emplace_back();
    for (std::int64_t i = 0; i < count; ++i) layers.push_back(next++);
  }
  StageLists lists;
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    BlockList blocks;
    for (const model::StageBlock& block : model::stage_blocks(plan, architecture, layout, stage))
      blocks.emplace_back(block.kind, block.recomputed);
    const auto known = std::ranges::find(lists.kinds, blocks);
    lists.kind_of_stage.push_back(static_cast<std::int32_t>(known - lists.kinds.begin()));
    if (known == lists.kinds.end()) lists.kinds.push_back(std::move(blocks));
  }
  return lists;
}

FamilyBlocks::FamilyBlocks(const Inputs& inputs, const model::Plan& plan)
    : context_(context_of(inputs, plan)),
      pieces_(plan.overlap.tensor ? plan.parallelism.tensor : 1),
      hop_(model::hop_bytes(context_)) {}

const model::Graph& FamilyBlocks::graph(model::BlockKind kind, bool recomputed) {
  const auto [entry, fresh] = known_.try_emplace({kind, recomputed});
  if (fresh) entry->second = model::make_stage_block(kind, recomputed, context_);
  return entry->second;
}

const BlockTimes& FamilyBounds::block(const std::pair<model::BlockKind, bool>& block) {
  const auto [entry, fresh] = known_.try_emplace(block);
  if (fresh) entry->second = block_times(blocks_.graph(block.first, block.second), blocks_.pieces(), costs_);
  return entry->second;
}

const FamilyBounds::Stage& FamilyBounds::stage(const BlockList& blocks) {
  const auto [entry, fresh] = stages_.try_emplace(blocks);
  Stage& stage = entry->second;
  if (!fresh) return stage;
  for (const OpType type : {OpType::F, OpType::B, OpType::I, OpType::W}) {
    PhaseTimes& phase = stage.phases[index(type)];
    const auto add = [&](const std::pair<model::BlockKind, bool>& one) {
      const PhaseTimes& times = block(one)[index(type)];
      phase.work.add(times.work);
      phase.path = phase.path.then(times.path);
    };
    if (type == OpType::F)
      std::ranges::for_each(blocks, add);
    else
      std::for_each(blocks.rbegin(), blocks.rend(), add);
    stage.seconds[index(type)] = std::max(phase.work.bound(), phase.path.longest());
  }
  return stage;
}

// Streams only: the order of a pair is not that of its sides.
double FamilyBounds::pair(const Stage& forward, const Stage& backward) {
  const auto [entry, fresh] = pairs_.try_emplace({&forward, &backward}, 0.0);
  if (!fresh) return entry->second;
  StreamWork work = forward.phases[index(OpType::F)].work;
  return entry->second = work.add(backward.phases[index(OpType::B)].work).bound();
}

double FamilyBounds::family(const BlockList& whole, double passes) {
  StreamWork work;
  for (const auto& one : whole)
    for (const OpType type : {OpType::F, OpType::B}) work.add(block(one)[index(type)].work);
  return passes * work.bound();
}

double FamilyBounds::schedule(const ScheduleOutline& outline, const StageLists& stages) {
  std::vector<const Stage*> known;
  for (const BlockList& blocks : stages.kinds) known.push_back(&stage(blocks));
  const auto of = [&](std::int32_t at) -> const Stage& {
    return *known[static_cast<std::size_t>(stages.kind_of_stage[static_cast<std::size_t>(at)])];
  };
  std::vector<double> costs;
  for (const auto& one : outline.classes) {
    if (one.type == OpType::FB)
      costs.push_back(pair(of(one.f_stage), of(one.b_stage)));
    else
      costs.push_back(of(one.f_stage >= 0 ? one.f_stage : one.b_stage).seconds[index(one.type)]);
  }
  return schedule_bound(outline, costs, hop_);
}

}  // namespace plumbline::sim
