// The program of a plan and its cost functions, for tests of parts of a step.
#pragma once

#include <algorithm>
#include <cstdint>

#include "model/plan/layout.h"
#include "model/program/compile.h"
#include "sim/predict/cost_models.h"
#include "sim/predict/inputs.h"
#include "sim/predict/simulate.h"

namespace plumbline::tests {

inline model::StepProgram program_of(const sim::Inputs& inputs) {
  const model::Layout layout = model::make_layout(inputs.plan, inputs.architecture).value();
  return model::compile(inputs.plan, inputs.architecture, layout).value();
}

inline sim::CostModels costs_of(const sim::Inputs& inputs) {
  return sim::cost_models(inputs, model::make_layout(inputs.plan, inputs.architecture).value()).value();
}

// Returns the overlapped pair of two middle stages, or another op of one.
inline const model::SlotTemplate& middle_slot(const model::StepProgram& program, model::OpType type) {
  const std::int32_t kind = program.stages[program.stages.size() / 2].kind;
  return *std::ranges::find_if(program.templates, [&](const model::SlotTemplate& slot) {
    return slot.type == type && (slot.f_stage_kind < 0 || slot.f_stage_kind == kind) &&
           (slot.b_stage_kind < 0 || slot.b_stage_kind == kind);
  });
}

}  // namespace plumbline::tests
