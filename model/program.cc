#include "model/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "model/graph/offload.h"
#include "model/layers/blocks.h"
#include "model/slot_template.h"
#include "model/stage_optimizer.h"
#include "model/synchronisation.h"

namespace plumbline::model {

namespace {

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
  return policy;
}

LayerContext layer_context(const Plan& plan, const Architecture& architecture, const Layout& layout,
                           const RoutingSpread& spread) {
  LayerContext c;
  c.architecture = architecture;
  c.gemm = plan.precision.gemm;
  c.dispatch = plan.precision.dispatch;
  c.combine = plan.precision.combine;
  c.gradients = activation_type(plan.precision.gradients);
  c.recompute = recompute_policy(plan);
  c.tokens = layout.tokens_per_micro_batch;
  c.sequence_length = plan.batch.sequence_length;
  c.tensor = plan.parallelism.tensor;
  c.sequence = plan.parallelism.sequence;
  c.context = plan.parallelism.context;
  c.ring = plan.parallelism.context_method == "ring";
  c.expert_parallel = plan.parallelism.expert;
  c.expert_tensor = plan.parallelism.expert_tensor;
  c.groups_per_token = groups_per_token(plan, architecture.experts);
  c.distinct_ranks_per_token = spread.ranks_per_token;
  c.shares_embedding = layout.embedding_beside_head;
  c.fused_attention = plan.attention.kernel == "fused";
  c.fused_loss = plan.loss.kernel == "fused";
  return c;
}

// Keeps each distinct value once.
template <class Key>
std::int32_t index_of(std::map<Key, std::int32_t>& known, const Key& key) {
  return known.try_emplace(key, static_cast<std::int32_t>(known.size())).first->second;
}

class Compiler {
 public:
  Compiler(const Plan& plan, const Architecture& architecture, const Layout& layout, const RoutingSpread& spread)
      : plan_(plan),
        architecture_(architecture),
        layout_(layout),
        context_(layer_context(plan, architecture, layout, spread)) {}

  Result<StepProgram> run() {
    const Result<const ScheduleKind*> kind = find_schedule(plan_.schedule.kind);
    if (!kind) return tl::unexpected(kind.error());
    if (const Result<void> ok = (*kind)->check(layout_.schedule); !ok) return tl::unexpected(ok.error());
    program_.schedule = (*kind)->build(layout_.schedule);
    program_.batches = point_to_point_batches(program_.schedule);
    for (std::int64_t stage = 0; stage < layout_.stages; ++stage) add_stage(stage);
    for (const auto& ops : program_.schedule.ranks) add_rank(ops);
    program_.gather_after_update = plan_.parallelism.zero_stage < 3 && !plan_.overlap.parameter_gather;
    program_.synchronisations = synchronisations(plan_, program_);
    const double elements = static_cast<double>(context_.stream_tokens() * architecture_.hidden_size);
    const DataType stream = is_fp8(context_.gemm) ? DataType::bf16 : activation_type(context_.gemm);
    program_.activation_hop = program_.gradient_hop = Bytes(elements * bytes_per_element(stream));
    return std::move(program_);
  }

 private:
  std::uint16_t block(BlockKind kind, bool recomputed) {
    const std::size_t before = block_kinds_.size();
    const std::int32_t index = index_of(block_kinds_, {kind, recomputed});
    if (block_kinds_.size() > before) {
      LayerContext context = context_;
      if (!recomputed) context.recompute.clear();
      program_.blocks.push_back(make_block(kind, context));
      if (plan_.offload.activations > 0) offload(program_.blocks.back(), plan_.offload.activations);
    }
    return static_cast<std::uint16_t>(index);
  }

  void add_stage(std::int64_t index) {
    Stage stage;
    StageKind kind;
    const auto add = [&](BlockKind b, std::int64_t layer, bool recomputed) {
      kind.blocks.push_back(block(b, recomputed));
      stage.layers.push_back(static_cast<std::int32_t>(layer));
    };
    // Full recomputation runs layers again, not the ends of the model.
    const bool ends = plan_.recompute.policy != "full";
    if (index == 0) add(BlockKind::embedding, -1, ends);
    std::int64_t left = plan_.recompute.layers.value_or(architecture_.layers);
    for (std::int64_t layer : layout_.stage_layers[index]) add(layer_kind(architecture_, layer), layer, left-- > 0);
    if (index == layout_.stages - 1) {
      for (std::int64_t i = 0; i < architecture_.multi_token_prediction_layers; ++i)
        add(BlockKind::multi_token_prediction, architecture_.layers + i, true);
      add(BlockKind::head, -1, ends);
    }
    stage.kind = index_of(stage_kinds_, kind.blocks);
    if (static_cast<std::size_t>(stage.kind) == program_.stage_kinds.size()) program_.stage_kinds.push_back(kind);
    StageOptimizer optimizer = make_stage_optimizer(plan_, layout_, program_.blocks, kind);
    program_.stage_optimizers.push_back(std::move(optimizer.graph));
    program_.stage_units.push_back(std::move(optimizer.units));
    program_.stages.push_back(std::move(stage));
  }

  void add_rank(const std::vector<ScheduleOp>& ops) {
    std::vector<std::uint16_t> slots;
    const std::int64_t pieces = plan_.overlap.tensor ? plan_.parallelism.tensor : 1;
    for (const ScheduleOp& op : ops) {
      const std::int32_t f = op.f_stage < 0 ? -1 : program_.stages[op.f_stage].kind;
      const std::int32_t b = op.b_stage < 0 ? -1 : program_.stages[op.b_stage].kind;
      const std::size_t before = templates_.size();
      const std::int32_t index = index_of(templates_, {op.type, f, b});
      if (templates_.size() > before)
        program_.templates.push_back(make_slot_template(op.type, f, b, program_.stage_kinds, program_.blocks, pieces));
      slots.push_back(static_cast<std::uint16_t>(index));
    }
    program_.slot_templates.push_back(std::move(slots));
  }

  const Plan& plan_;
  const Architecture& architecture_;
  const Layout& layout_;
  LayerContext context_;
  StepProgram program_;
  std::map<std::pair<BlockKind, bool>, std::int32_t> block_kinds_;  // recomputed or not
  std::map<std::vector<std::uint16_t>, std::int32_t> stage_kinds_;
  std::map<std::tuple<OpType, std::int32_t, std::int32_t>, std::int32_t> templates_;
};

}  // namespace

Result<StepProgram> compile(const Plan& plan, const Architecture& architecture, const Layout& layout) {
  const MixtureOfExperts& experts = architecture.experts;
  const std::int64_t any_node = 1;  // the ranks of a token do not depend on the nodes
  return compile(plan, architecture, layout,
                 routing_spread(experts, groups_per_token(plan, experts), plan.parallelism.expert, any_node));
}

Result<StepProgram> compile(const Plan& plan, const Architecture& architecture, const Layout& layout,
                            const RoutingSpread& spread) {
  return Compiler(plan, architecture, layout, spread).run();
}

std::string span_name(Section section, Phase phase) {
  return fmt::format("{}({})", to_string(section), phase == Phase::I ? "B" : to_string(phase));
}

}  // namespace plumbline::model
