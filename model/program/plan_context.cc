#include <algorithm>
#include <string>
#include <string_view>

#include "model/plan/software.h"
#include "model/program/compile.h"
#include "model/routing/documents.h"

namespace plumbline::model {

bool has_reference(const Plan& plan) { return plan.training.objective == "dpo" && plan.training.reference == "model"; }

RecomputePolicy recompute_policy(const Plan& plan) {
  using enum RecomputeGroup;
  static const std::map<std::string, RecomputeGroup> words = {
      {"rmsnorm", rmsnorm}, {"mla_up_projection", mla_up_projection},
      {"swiglu", swiglu},   {"core_attention", core_attention},
      {"mlp", mlp},         {"moe", moe}};
  RecomputePolicy policy;
  if (plan.recompute.policy == "full") policy = {rmsnorm, mla_up_projection, swiglu, core_attention, mlp, moe, other};
  if (plan.recompute.policy == "selective")
    for (const std::string& word : plan.recompute.operators) policy.insert(words.at(word));
  if (!policy.empty() && plan.recompute.early_stop) policy.insert(early_stop);
  return policy;
}

Dispatcher dispatcher_of(const Plan& plan) {
  const std::string& name = plan.stack.dispatcher;
  if (name == "alltoall") return Dispatcher::alltoall;
  if (name == "allgather") return Dispatcher::allgather;
  return name == "hybridep" ? Dispatcher::hybridep : Dispatcher::deepep;
}

ContextMethod context_method(std::string_view name) {
  if (name == "ring") return ContextMethod::ring;
  return name == "all-gather" ? ContextMethod::all_gather : ContextMethod::all_to_all;
}

Adapters adapters_of(const Plan& plan) {
  const auto& training = plan.training;
  if (training.method == "full") return {};
  const auto has = [&](std::string_view target) {
    if (training.targets.empty()) return target != "experts";
    return std::ranges::find(training.targets, target) != training.targets.end();
  };
  return {training.rank, has("attention"), has("mlp"), has("experts"), training.method == "qlora"};
}

LayerContext plan_context(const Plan& plan, const Architecture& architecture, const Layout& layout,
                          const RoutingSpread& spread) {
  LayerContext context = plan_degrees(plan, architecture.experts, layout, spread);
  context.architecture = architecture;
  return context;
}

LayerContext plan_degrees(const Plan& plan, const MixtureOfExperts& experts, const Layout& layout,
                          const RoutingSpread& spread) {
  LayerContext c;
  c.gemm = plan.precision.gemm;
  c.experts = plan.precision.experts;
  c.dispatch = plan.precision.dispatch;
  c.combine = plan.precision.combine;
  c.gradients = activation_type(plan.precision.gradients);
  c.recompute = recompute_policy(plan);
  c.tokens = layout.tokens_per_micro_batch;
  c.sequence_length = plan.batch.sequence_length;
  c.tensor = plan.parallelism.tensor;
  c.sequence = plan.parallelism.sequence;
  c.context = plan.parallelism.context;
  c.context_method = context_method(plan.parallelism.context_method);
  c.expert_parallel = plan.parallelism.expert;
  c.expert_tensor = plan.parallelism.expert_tensor;
  c.groups_per_token = groups_per_token(plan, experts);
  c.distinct_ranks_per_token = spread.ranks_per_token;
  c.dispatcher = dispatcher_of(plan);
  c.dispatch_overlap = plan.stack.dispatch_overlap;
  const double capacity = plan.routing.capacity_factor.value_or(1);
  c.even_rows = plan.routing.capacity_factor && plan.routing.pad_to_capacity.value_or(false);
  c.kept_rows = c.even_rows ? capacity : std::min(1.0, capacity);
  c.redundant_experts = plan.routing.redundant_experts.value_or(0);
  c.document_tokens = document_tokens(plan);
  c.shares_embedding = layout.embedding_with_head;
  c.prediction_apart = prediction_stage(layout) + 1 < layout.stages;
  c.attention = attention_kernel(plan.attention.kernel);
  c.attention_format = attention_format(plan);
  c.delayed_scaling = plan.precision.scaling == "delayed";
  c.row_scaling = plan.precision.scaling == "row";
  c.quantized_weights = plan.precision.parameters == "fp8";
  c.one_layout = plan.precision.layouts == "one";
  c.quantized_head = plan.precision.head != "bf16";
  // A gathered parameter is gone before the next micro-batch, and so is its copy.
  c.weights_cast_once = plan.precision.weight_cast == "step" && plan.parallelism.zero_stage < 3;
  c.loss_in_head = plan.loss.kernel == "linear";
  c.fused_loss = plan.loss.kernel.starts_with("fused") || c.loss_in_head;
  c.loss_chunks = plan.loss.chunks;
  c.loss_in_place = plan.loss.kernel.ends_with("in_place");
  c.fused_experts = fuses_experts(plan);
  const auto captures = [&plan](std::string_view scope) {
    return std::ranges::find(plan.stack.graphs, scope) != plan.stack.graphs.end();
  };
  c.captured_parts = captures("attn") && !captures("full_iteration");
  c.adapters = adapters_of(plan);
  c.captured_router = c.captured_parts && captures("moe_router");
  return c;
}

std::vector<StageBlock> stage_blocks(const Plan& plan, const Architecture& architecture, const Layout& layout,
                                     std::int64_t stage) {
  std::vector<StageBlock> blocks;
  // Full recomputation applies to layers, not to embedding and head.
  const BlockPass ends = plan.recompute.policy != "full" ? BlockPass::recomputed : BlockPass::kept;
  if (stage == 0) blocks.push_back({BlockKind::embedding, ends, -1});
  std::int64_t left = plan.recompute.layers.value_or(architecture.layers);
  for (const std::int64_t layer : layout.stage_layers[static_cast<std::size_t>(stage)])
    blocks.push_back({layer_kind(architecture, layer), left-- > 0 ? BlockPass::recomputed : BlockPass::kept, layer});
  if (stage == prediction_stage(layout))
    for (std::int64_t i = 0; i < architecture.multi_token_prediction_layers; ++i)
      blocks.push_back({BlockKind::multi_token_prediction, BlockPass::recomputed, architecture.layers + i});
  if (stage == layout.stages - 1) blocks.push_back({BlockKind::head, ends, -1});
  if (!has_reference(plan)) return blocks;
  std::vector<StageBlock> all = blocks;
  for (const StageBlock& block : blocks)
    if (block.kind != BlockKind::multi_token_prediction) all.push_back({block.kind, BlockPass::reference, block.layer});
  return all;
}

Graph make_stage_block(BlockKind kind, BlockPass pass, const LayerContext& context) {
  if (pass == BlockPass::recomputed) return make_block(kind, context);
  LayerContext own = context;
  own.recompute.clear();
  if (pass == BlockPass::kept) return make_block(kind, own);
  own.reference = true;
  own.adapters = {.nf4 = context.adapters.nf4};
  Graph block = make_block(kind, own);
  if (context.adapters.rank > 0)
    for (Tensor& tensor : block.tensors) tensor.shared = tensor.shared || tensor.role == Role::parameter;
  return block;
}

Bytes stage_message_bytes(const LayerContext& context) {
  const double elements = static_cast<double>(context.stream_tokens() * context.architecture.stream_columns());
  const DataType stream = is_quantized(context.gemm) ? DataType::bf16 : activation_type(context.gemm);
  return Bytes(elements * bytes_per_element(stream));
}

}  // namespace plumbline::model
