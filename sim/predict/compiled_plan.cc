#include "sim/predict/compiled_plan.h"

#include <utility>

#include "sim/predict/routing_memo.h"
#include "sim/predict/simulate.h"

namespace plumbline::sim {

model::Result<CompiledPlan> compile_plan(const Inputs& inputs) {
  model::Result<model::Layout> layout = model::make_layout(inputs.plan, inputs.architecture);
  if (!layout) return tl::unexpected(layout.error());
  model::Result<model::StepProgram> program =
      model::compile(inputs.plan, inputs.architecture, *layout, spread_of(inputs));
  if (!program) return tl::unexpected(program.error());
  model::Result<CostModels> costs = cost_models(inputs, *layout);
  if (!costs) return tl::unexpected(costs.error());
  return CompiledPlan{std::move(*layout), std::move(*program), std::move(*costs)};
}

}  // namespace plumbline::sim
