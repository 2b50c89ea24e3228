#include "model/program/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "model/graph/offload.h"
#include "model/layers/blocks.h"
#include "model/program/plan_context.h"
#include "model/program/slot_template.h"
#include "model/program/stage_optimizer.h"
#include "model/program/synchronisation.h"

namespace plumbline::model {

namespace {

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
        context_(plan_context(plan, architecture, layout, spread)) {}

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
    program_.activation_hop = hop_bytes(context_);
    return std::move(program_);
  }

 private:
  std::uint16_t block(BlockKind kind, bool recomputed) {
    const std::size_t before = block_kinds_.size();
    const std::int32_t index = index_of(block_kinds_, {kind, recomputed});
    if (block_kinds_.size() > before) {
      program_.blocks.push_back(make_stage_block(kind, recomputed, context_));
      if (plan_.offload.activations > 0) offload(program_.blocks.back(), plan_.offload.activations);
    }
    return static_cast<std::uint16_t>(index);
  }

  void add_stage(std::int64_t index) {
    Stage stage;
    StageKind kind;
    for (const StageBlock& one : stage_blocks(plan_, architecture_, layout_, index)) {
      kind.blocks.push_back(block(one.kind, one.recomputed));
      stage.layers.push_back(static_cast<std::int32_t>(one.layer));
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
