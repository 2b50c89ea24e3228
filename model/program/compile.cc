#include "model/program/compile.h"

#include <map>
#include <utility>

#include "model/program/data_parallel.h"
#include "model/program/plan_context.h"
#include "model/program/stage_optimizer.h"
#include "model/schedule/transfers.h"

namespace plumbline::model {
namespace {

class Assembler {
 public:
  Assembler(const Plan& plan, const Architecture& architecture, const Layout& layout, StageLibrary& library)
      : plan_(plan), architecture_(architecture), layout_(layout), library_(library) {}

  StepProgram run(Schedule schedule) {
    program_.schedule = std::move(schedule);
    program_.batches = point_to_point_batches(program_.schedule);
    for (std::int64_t stage = 0; stage < layout_.stages; ++stage) add_stage(stage);
    program_.blocks = library_.blocks();
    program_.stage_kinds = library_.program().stage_kinds;
    for (const auto& ops : program_.schedule.ranks) add_rank(ops);
    program_.gather_after_update = plan_.parallelism.zero_stage < 3 && !plan_.overlap.parameter_gather;
    program_.data_parallel = data_parallel(plan_, program_);
    program_.stage_message = library_.p2p();
    return std::move(program_);
  }

 private:
  void add_stage(std::int64_t index) {
    Stage& stage = program_.stages.emplace_back();
    stage.kind = library_.kind(block_list(plan_, architecture_, layout_, index));
    for (const StageBlock& block : stage_blocks(plan_, architecture_, layout_, index))
      stage.layers.push_back(static_cast<std::int32_t>(block.layer));
    const auto [optimizer, fresh] = optimizers_.try_emplace(stage.kind);
    if (fresh) optimizer->second = make_stage_optimizer(plan_, layout_, library_.units(stage.kind, plan_).units);
    program_.stage_optimizers.push_back(optimizer->second.graph);
    program_.stage_units.push_back(optimizer->second.units);
  }

  void add_rank(const std::vector<ScheduleOp>& ops) {
    const auto kind = [&](std::int32_t stage) {
      return stage < 0 ? -1 : program_.stages[static_cast<std::size_t>(stage)].kind;
    };
    std::vector<std::uint16_t>& slots = program_.slot_templates.emplace_back();
    for (const ScheduleOp& op : ops) {
      const std::int32_t slot = library_.slot(op.type, kind(op.f_stage), kind(op.b_stage));
      const auto [known, fresh] = templates_.try_emplace(slot, static_cast<std::uint16_t>(templates_.size()));
      if (fresh) program_.templates.push_back(library_.slot_template(slot));
      slots.push_back(known->second);
    }
  }

  const Plan& plan_;
  const Architecture& architecture_;
  const Layout& layout_;
  StageLibrary& library_;
  StepProgram program_;
  std::map<std::int32_t, StageOptimizer> optimizers_;  // by stage kind
  std::map<std::int32_t, std::uint16_t> templates_;    // by slot of the library
};

}  // namespace

BlockList block_list(const Plan& plan, const Architecture& architecture, const Layout& layout, std::int64_t stage) {
  BlockList blocks;
  for (const StageBlock& block : stage_blocks(plan, architecture, layout, stage))
    blocks.emplace_back(block.kind, block.pass);
  return blocks;
}

StepProgram assemble(const Plan& plan, const Architecture& architecture, const Layout& layout, Schedule schedule,
                     StageLibrary& library) {
  return Assembler(plan, architecture, layout, library).run(std::move(schedule));
}

Result<StepProgram> compile(const Plan& plan, const Architecture& architecture, const Layout& layout) {
  const MixtureOfExperts& experts = architecture.experts;
  const std::int64_t any_node = 1;  // the ranks that a token reaches do not depend on the nodes
  return compile(plan, architecture, layout,
                 routing_spread(experts, groups_per_token(plan, experts), plan.parallelism.expert, any_node));
}

Result<StepProgram> compile(const Plan& plan, const Architecture& architecture, const Layout& layout,
                            const RoutingSpread& spread) {
  const auto kind = TRY(schedule_kind(plan));
  TRY(kind->check(layout.schedule));
  StageLibrary library(plan_context(plan, architecture, layout, spread), plan);
  return assemble(plan, architecture, layout, kind->build(layout.schedule), library);
}

}  // namespace plumbline::model
