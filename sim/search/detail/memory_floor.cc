#include "sim/search/detail/memory_floor.h"

#include <algorithm>
#include <utility>

#include "model/memory/memory.h"
#include "model/program/compile.h"

namespace plumbline::sim {

using model::BlockKind;

MemoryFloor::MemoryFloor(const Inputs& inputs)
    : inputs_(inputs), device_(model::with_allocator(inputs.cluster.device, inputs.profile)) {
  for (std::int64_t layer = 0; layer < inputs.architecture.layers; ++layer)
    layer_kinds_.push_back(model::layer_kind(inputs.architecture, layer));
}

// The parameters depend on the degrees that divide them. Tokens do not matter, so they are those of the first plan.
const model::Graph& MemoryFloor::graph(BlockKind kind, const model::Plan& plan, const model::Layout& layout) {
  std::vector<std::int64_t> key = model::parameter_degrees(plan.parallelism);
  key.insert(key.end(), {static_cast<std::int64_t>(kind), layout.embedding_with_head});
  const auto [entry, fresh] = graphs_.try_emplace(std::move(key));
  model::Graph& graph = entry->second;
  if (!fresh) return graph;
  model::RoutingSpread spread;
  spread.ranks_per_token = 1;  // affects tokens only
  graph = model::make_stage_block(kind, model::BlockPass::kept,
                                  model::plan_context(plan, inputs_.architecture, layout, spread));
  graph.operators.clear();
  std::erase_if(graph.tensors, [](const model::Tensor& tensor) {
    return tensor.shared || (tensor.role != model::Role::parameter && tensor.role != model::Role::gradient);
  });
  return graph;
}

MemoryFloor::Least MemoryFloor::block_bytes(BlockKind kind, const model::Plan& plan, const model::Layout& layout,
                                            States& states) {
  const auto [entry, fresh] = states.try_emplace(kind);
  Least& bytes = entry->second;
  if (!fresh) return bytes;
  const std::vector<model::Graph> blocks = {graph(kind, plan, layout)};
  const model::StageKind alone{{0}};
  const model::TrainingState state = model::training_state(plan, layout, blocks, {{&alone, nullptr}});
  for (const model::StateBytes& part : {state.experts, state.others})
    bytes.gpu += (part.parameters + part.gradients + part.optimizer).value();
  if (device_.reserve.master_shards) bytes.gpu -= state.counts.shards.value();
  bytes.host = state.counts.on_host.value();
  return bytes;
}

std::vector<MemoryFloor::Least> MemoryFloor::bytes(const model::Plan& plan, const Pipeline& pipeline) {
  const model::Layout layout = *model::make_layout(plan, inputs_.architecture);
  std::vector<std::int64_t> key = model::parameter_degrees(plan.parallelism);
  key.insert(key.end(),
             {plan.parallelism.zero_stage, layout.embedding_with_head, model::shard_group(plan, layout, false).shards,
              model::shard_group(plan, layout, true).shards});
  States& states = states_[std::move(key)];
  std::vector<double> before = {0};  // [layer]: bytes of the layers before it
  double on_hosts = 0;               // of all ranks of a pipeline
  const auto add = [&](BlockKind kind, std::int64_t times) {
    const Least block = block_bytes(kind, plan, layout, states);
    on_hosts += static_cast<double>(times) * block.host;
    return static_cast<double>(times) * block.gpu;
  };
  for (const BlockKind kind : layer_kinds_) before.push_back(before.back() + add(kind, 1));
  const double first = add(BlockKind::embedding, 1);
  double last = add(BlockKind::head, 1);
  if (const std::int64_t modules = inputs_.architecture.multi_token_prediction_layers; modules > 0)
    last += add(BlockKind::multi_token_prediction, modules);
  const std::int64_t gpus = plan.cluster.gpus, of_host = std::max<std::int64_t>(1, device_.host_gpus);
  const double host = on_hosts * static_cast<double>(gpus) /
                      static_cast<double>(pipeline.shape.ranks * ((gpus + of_host - 1) / of_host));
  // Gradients are not counted twice and activations not at all, so this is at most the peak of the rest.
  const double reserve = model::rank_peak(plan, layout, device_, {}).sum().value();
  const model::Schedule outline = pipeline.kind->outline(pipeline.shape);
  std::vector<Least> floors;
  for (const Split& split : pipeline.splits) {
    const std::vector<std::int64_t> counts =
        split.layers.empty() ? model::even_layer_counts(inputs_.architecture.layers, pipeline.stages) : split.layers;
    std::vector<double> ranks(static_cast<std::size_t>(pipeline.shape.ranks), reserve);
    std::size_t layer = 0;
    for (std::int32_t stage = 0; stage < outline.stages; ++stage) {
      const std::size_t next = layer + static_cast<std::size_t>(counts[static_cast<std::size_t>(stage)]);
      double held = before[next] - before[layer];
      if (stage == 0) held += first;
      if (stage + 1 == outline.stages) held += last;
      // A stage that both directions have on the same rank is held once.
      for (std::int32_t direction = 0; direction < outline.directions; ++direction)
        if (direction == 0 || outline.rank_of(1, stage) != outline.rank_of(0, stage))
          ranks[static_cast<std::size_t>(outline.rank_of(direction, stage))] += held;
      layer = next;
    }
    floors.push_back({*std::ranges::max_element(ranks), host});
  }
  return floors;
}

}  // namespace plumbline::sim
