#include "sim/search/detail/branch_bounds.h"

#include <algorithm>

#include "model/plan/layout.h"
#include "model/program/plan_context.h"
#include "model/program/slot_template.h"
#include "sim/predict/memos.h"

namespace plumbline::sim {

namespace {

using model::OpType;

constexpr std::size_t index(OpType type) { return static_cast<std::size_t>(type); }

model::LayerContext context_of(const Inputs& inputs, const model::Plan& plan) {
  const model::Layout layout = *model::make_layout(plan, inputs.architecture);
  return model::plan_context(plan, inputs.architecture, layout, spread_of(inputs, plan));
}

}  // namespace

StageLists stage_lists(const model::Plan& plan, const model::Architecture& architecture, std::int64_t stages) {
  model::Layout layout;
  layout.stages = stages;
  std::int64_t next = 0;
  for (const std::int64_t count : model::stage_layer_counts(plan, architecture, stages)) {
    std::vector<std::int64_t>& layers = layout.stage_layers.emplace_back();
    for (std::int64_t i = 0; i < count; ++i) layers.push_back(next++);
  }
  return stage_lists(plan, architecture, layout);
}

BranchBlocks::BranchBlocks(const Inputs& inputs, const model::Plan& plan)
    : context_(context_of(inputs, plan)),
      overlap_(model::tensor_overlap(plan)),
      p2p_(model::stage_message_bytes(context_)) {}

BlockSlots& BranchBlocks::block(const StageBlock& block) {
  auto known = known_.find(block);
  if (known == known_.end())
    known =
        known_.emplace(block, BlockSlots(model::make_stage_block(block.first, block.second, context_), overlap_)).first;
  return known->second;
}

BlockTimes& BranchBounds::block(const StageBlock& block) {
  auto known = known_.find(block);
  if (known == known_.end()) known = known_.emplace(block, BlockTimes(blocks_.block(block), costs_)).first;
  return known->second;
}

BranchBounds::Stage& BranchBounds::stage(const model::BlockList& blocks) {
  const auto [entry, fresh] = stages_.try_emplace(blocks);
  if (fresh) entry->second.blocks = blocks;
  return entry->second;
}

const StreamWork& BranchBounds::work(Stage& stage, OpType type) {
  std::optional<StreamWork>& known = stage.works[index(type)];
  if (known) return *known;
  known.emplace();
  for (const auto& one : stage.blocks) known->add(block(one).work(type));
  return *known;
}

double BranchBounds::slot(Stage& stage, OpType type) {
  std::optional<double>& known = stage.seconds[index(type)];
  if (known) return *known;
  Path path;
  const auto add = [&](const StageBlock& one) { path = path.then(block(one).path(type)); };
  if (type == OpType::F)
    std::ranges::for_each(stage.blocks, add);
  else
    std::for_each(stage.blocks.rbegin(), stage.blocks.rend(), add);
  return known.emplace(std::max(work(stage, type).bound(), path.longest()));
}

const model::SlotTemplate& BranchBlocks::pair(const StageBlock& forward, const StageBlock& backward) {
  const auto [entry, fresh] = pairs_.try_emplace({forward, backward});
  if (fresh)
    entry->second = model::make_slot_template(OpType::FB, 0, 1, {{{0}}, {{1}}},
                                              {block(forward).graph(), block(backward).graph()}, overlap_);
  return entry->second;
}

const Path& BranchBounds::pair(const StageBlock& forward, const StageBlock& backward) {
  const auto known = layer_pairs_.find({forward, backward});
  if (known != layer_pairs_.end()) return known->second;
  const model::SlotTemplate& slot = blocks_.pair(forward, backward);
  BlockTimes& first = block(forward);
  BlockTimes& second = block(backward);
  std::vector<double> seconds;
  for (const model::Segment& segment : slot.segments)
    seconds.push_back((segment.forward_side ? first : second).least_seconds(segment));
  return layer_pairs_.try_emplace({forward, backward}, slot, &first.graph(), &second.graph(), seconds).first->second;
}

// Combines the blocks of both sides in the order of model::make_slot_template: ends of the model alone, then layers in
// pairs, then the rest of the longer side.
double BranchBounds::pair(Stage& forward, Stage& backward) {
  const auto [entry, fresh] = pairs_.try_emplace({&forward, &backward}, 0.0);
  if (!fresh) return entry->second;
  const auto alone = [](const StageBlock& one) {
    return one.first == model::BlockKind::embedding || one.first == model::BlockKind::head;
  };
  Path path;
  auto f = forward.blocks.begin();
  auto b = std::find_if(backward.blocks.rbegin(), backward.blocks.rend(),
                        [](const StageBlock& one) { return one.second != model::BlockPass::reference; });
  for (; f != forward.blocks.end() && alone(*f); ++f) path = path.then(block(*f).path(OpType::F));
  for (; b != backward.blocks.rend() && alone(*b); ++b) path = path.then(block(*b).path(OpType::B));
  for (; f != forward.blocks.end() && b != backward.blocks.rend() && !alone(*f) && !alone(*b); ++f, ++b)
    path = path.then(pair(*f, *b));
  for (; f != forward.blocks.end(); ++f) path = path.then(block(*f).path(OpType::F));
  for (; b != backward.blocks.rend(); ++b) path = path.then(block(*b).path(OpType::B));
  StreamWork both = work(forward, OpType::F);
  return entry->second = std::max(both.add(work(backward, OpType::B)).bound(), path.longest());
}

double BranchBounds::branch(const model::Plan& plan) {
  const auto& degrees = plan.parallelism;
  const double passes = static_cast<double>(plan.batch.global_batch_size * degrees.tensor * degrees.context) /
                        static_cast<double>(plan.batch.micro_batch_size * plan.cluster.gpus);
  model::Plan one_stage = plan;
  one_stage.schedule.layers_per_stage = {};
  const StageLists whole = stage_lists(one_stage, blocks_.architecture(), 1);
  StreamWork all;
  for (const StageBlock& one : whole.kinds.front())
    for (const OpType type : {OpType::F, OpType::B}) all.add(block(one).work(type));
  return passes * all.bound();
}

std::vector<double> BranchBounds::slots(const model::ScheduleOutline& outline, const StageLists& stages) {
  std::vector<Stage*> known;
  for (const model::BlockList& blocks : stages.kinds) known.push_back(&stage(blocks));
  const auto of = [&](std::int32_t at) -> Stage& {
    return *known[static_cast<std::size_t>(stages.kind_of_stage[static_cast<std::size_t>(at)])];
  };
  std::vector<double> costs;
  for (const auto& one : outline.classes) {
    if (one.type == OpType::FB)
      costs.push_back(pair(of(one.f_stage), of(one.b_stage)));
    else
      costs.push_back(slot(of(one.f_stage >= 0 ? one.f_stage : one.b_stage), one.type));
  }
  return costs;
}

}  // namespace plumbline::sim
