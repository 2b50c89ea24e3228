// Results as JSON, in the envelope that other tools depend on. Keys end in their unit, times are seconds, and what was
// not computed is null. Numbers are printed with enough digits to read back the same double.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/provenance.h"
#include "model/memory/memory.h"
#include "model/result/result.h"
#include "model/result/timeline.h"
#include "model/routing/rank_rows.h"
#include "reports/training_report.h"

namespace plumbline::model {
struct Plan;
}  // namespace plumbline::model

namespace plumbline::reports {

std::string to_json(const model::StepResult& result, const model::Plan& plan);
// An executed step has two more keys: `training`, and `timeline` with the spans of the step.
std::string to_json(const model::StepResult& result, const model::Plan& plan, const TrainingReport& training,
                    const model::Timeline& timeline);
std::string step_json(const model::StepTimes& step);  // `step` alone

// The JSON Schemas (draft 2020-12) of outputs are made of the lists of keys that also write them. schema_names()
// returns their names: `output` of the documents' envelopes, and "defs", what they share. json_schema() returns the
// schema of that name as text, with references to defs.schema.json; nullopt where there is none.
std::vector<std::string> schema_names();
std::optional<std::string> json_schema(std::string_view name);

// Returns how uneven the experts of a plan are.
std::string routing_json(const model::RoutingStatistics& routing);
// Returns a row for experts and ranks, and one for each step of balancing that is kept.
std::string routing_csv(const model::RoutingStatistics& routing);

// Results of the verb `memory` besides the ranks' peaks: one rank over the step, and changes that make the plan fit.
struct MemoryDetails {
  const model::RankLevels* levels = nullptr;    // nullptr: none
  const model::MemoryAdvice* advice = nullptr;  // nullptr: not requested
  std::vector<model::Parameter> constants;      // on which the reserves depend
  std::optional<model::RolloutMemory> rollout;  // of a plan with [rollout]: both halves
  std::string rollout_reason;                   // why its engines cannot be
};
std::string memory_to_json(const model::Memory& memory, const model::Plan& plan, const MemoryDetails& details = {});
std::string memory_csv(const model::Memory& memory);  // a row for each pipeline rank

}  // namespace plumbline::reports
