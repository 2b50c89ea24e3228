// Results as JSON, in the envelope that other tools depend on: keys carry their unit, times are seconds,
// numbers print so that they read back to the same double, and what was not computed is null.
#pragma once

#include <string>
#include <vector>

#include "model/base/provenance.h"
#include "model/memory/memory.h"
#include "model/memory/memory_change.h"
#include "model/plan/plan.h"
#include "model/result/result.h"
#include "model/result/timeline.h"
#include "reports/training_report.h"

namespace plumbline::reports {

std::string to_json(const model::StepResult& result, const model::Plan& plan);
// Of a step that was executed: beside these keys `training`, and `timeline` with the spans of the step.
std::string to_json(const model::StepResult& result, const model::Plan& plan, const TrainingReport& training,
                    const model::Timeline& timeline);
// The objects `plan` and `step` alone, for outputs that are put together elsewhere.
std::string plan_json(const model::Plan& plan);
std::string step_json(const model::StepTimes& step);

// What the verb `memory` knows beside the ranks' peaks: one rank over the step, and what would make the plan fit.
struct MemoryDetails {
  const model::RankLevels* levels = nullptr;    // null: none
  const model::MemoryAdvice* advice = nullptr;  // null: none was asked for
  std::vector<model::Parameter> constants;      // that the reserves rest on
};
std::string memory_to_json(const model::Memory& memory, const model::Plan& plan, const MemoryDetails& details = {});

}  // namespace plumbline::reports
