#include "sim/predict/plan_key.h"

#include "model/plan/plan.h"
#include "model/program/compile.h"
#include "sim/predict/cost_models.h"

namespace plumbline::sim {

void add_graphs(const model::Plan& plan, const model::LayerContext& degrees, PlanKey& key) {
  model::visit_context(degrees, [&](const auto& value) { key.add(value); });
  key.add(plan.overlap.tensor, plan.overlap.tensor_gradients, plan.recompute.policy, plan.offload.activations);
}

void add_costs(const model::Plan& plan, const model::Layout& layout, bool wired, PlanKey& key) {
  key.add(plan.overlap, plan.input);
  const model::RankGroup group = model::expert_group(plan.parallelism);
  key.add(group.ranks, group.stride, plan.routing.max_nodes_per_token, plan.precision.gemm, plan.precision.dispatch,
          plan.precision.combine, plan.offload.optimizer, plan.optimizer.ema, plan.cluster.power_limit_w,
          plan.cluster.host_speed, plan.stack.dispatcher, plan.stack.fused, plan.stack.graphs, plan.attention.kernel,
          plan.loss.kernel, plan.precision.attention, plan.precision.experts, plan.precision.parameters,
          plan.precision.head,
          plan.parallelism.pipeline > 1,                                       // slots have messages
          plan.parallelism.pipeline > 1 && plan.schedule.virtual_stages == 1,  // and wait for them
          plan.routing.pad_to_capacity, plan.offload.activations > 0);
  if (!wired) return;
  key.add(plan.cluster.gpus, plan.cluster.placement, plan.cluster.domain_gpus, plan.parallelism.pipeline);
  key.add(collective_groups(plan, layout));
}

void add_imbalance(const model::Plan& plan, PlanKey& key) {
  key.add(plan.routing, plan.parallelism.expert);
  if (!plan.routing.skew) return;
  key.add(plan.batch.micro_batch_size, plan.batch.sequence_length, plan.parallelism.context, plan.parallelism.tensor,
          plan.parallelism.sequence);
}

void add_sharding(const model::Plan& plan, const model::Layout& layout, PlanKey& key) {
  key.add(plan.parallelism, plan.overlap, plan.precision);
  key.add(plan.cluster.gpus, plan.optimizer.kind, plan.optimizer.gradient_clipping, plan.optimizer.ema,
          plan.optimizer.gradient_copy, plan.offload.optimizer, layout.two_directions);
}

void add_stages(const model::Plan& plan, const model::Layout& layout, PlanKey& key) {
  const model::StageLayers& layers = plan.schedule.layers_per_stage;
  key.add(layout.stages, layers.counts, plan.recompute.policy == "full", plan.recompute.layers,
          model::has_reference(plan));
}

}  // namespace plumbline::sim
