#include "sim/predict/stage_balance.h"

#include <cstdint>
#include <map>
#include <utility>

#include "model/plan/layout.h"
#include "model/program/compile.h"
#include "sim/predict/detail/parts_cache.h"

namespace plumbline::sim {
namespace {

// Returns the seconds of both passes through a stage of this block alone.
double block_seconds(const model::BlockList& block, TimedStages& timed) {
  model::StageLibrary& library = timed.stage_library();
  const std::int32_t kind = library.kind(block);
  return timed.run(library.slot(model::OpType::F, kind, -1)).seconds +
         timed.run(library.slot(model::OpType::B, -1, kind)).seconds;
}

}  // namespace

model::Result<model::SplitCosts> split_costs(const model::Plan& plan, const Inputs& inputs) {
  Inputs unwired = inputs;
  unwired.fabric.reset();
  unwired.links = nullptr;
  model::Plan even = plan;
  even.schedule.layers_per_stage = {.even = true};
  PartsCache cache(std::move(unwired));
  PlanWork work;
  TRY(cache.find(even, work));
  std::map<model::BlockList, double> known;
  model::SplitCosts costs;
  for (std::int64_t stage = 0; stage < work.layout.stages; ++stage) {
    std::size_t again = costs.layers.size();  // the layer whose reference comes next
    for (const auto& block : model::block_list(even, inputs.architecture, work.layout, stage)) {
      const auto [seconds, fresh] = known.try_emplace({block});
      if (fresh) seconds->second = block_seconds(seconds->first, *work.timed);
      const bool head =
          block.first == model::BlockKind::head || block.first == model::BlockKind::multi_token_prediction;
      if (block.first == model::BlockKind::embedding)
        costs.first += seconds->second;
      else if (head)
        costs.last += seconds->second;
      else if (block.second == model::BlockPass::reference)
        costs.layers[again++] += seconds->second;
      else
        costs.layers.push_back(seconds->second);
    }
  }
  return costs;
}

model::Plan with_balanced_stages(model::Plan plan, const Inputs& inputs) {
  model::StageLayers& layers = plan.schedule.layers_per_stage;
  if (layers.even || !layers.counts.empty() || plan.batch.global_batch_size == 0) return plan;
  model::Plan even = plan;
  even.schedule.layers_per_stage = {.even = true};
  const auto layout = model::make_layout(even, inputs.architecture);
  if (!layout || layout->stages == 1) return plan;
  const auto costs = split_costs(plan, inputs);
  if (costs) {
    layers.counts = model::balanced_layer_counts(*costs, layout->stages);
    layers.found = true;
  }
  return plan;
}

}  // namespace plumbline::sim
