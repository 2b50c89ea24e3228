// The report of a step in a terminal: lines of at most 80 columns, aligned tables.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "model/memory/memory.h"
#include "model/plan/plan.h"
#include "model/result/result.h"
#include "reports/charts/charts.h"
#include "reports/text/step/sections.h"
#include "reports/text/table.h"
#include "reports/training_report.h"

namespace plumbline::reports {

std::string summary(const model::StepResult& result, const model::Plan& plan,
                    const std::vector<Comparison>& comparisons = {}, Style style = {});

// Returns a step of reinforcement learning in the middle of its interval, its parts, its memory and its cost.
std::string rollout_section(const model::RolloutResult& rollout, Style style = {});
// Returns the memory of both halves, and whether it fits.
std::string rollout_memory_text(const model::RolloutMemory& memory);

// Returns the report of an executed step: its spread, slots by kind, time by class, the training.
std::string training_summary(const model::StepResult& result, const model::Plan& plan, const TrainingReport& training);

// A predicted step, the cluster's device, and the devices for which the constants of its profile hold (none: any).
struct CoveredStep {
  const model::StepResult& result;
  const model::Plan& plan;
  const std::string& device;
  const std::vector<std::string>& profile_devices;
};

// Returns a table of the parts of a step: the share of the step that depends on constants measured on this GPU (or
// fitted to what was), transferred from another one, stated by somebody (published, datasheets, sources of software) or
// assumed, and what to measure; what is left depends on no single constant. Below it are the largest constants that
// were not measured on this GPU.
std::string coverage_text(const CoveredStep& step);

// Returns a row for each constant on which the step depends.
std::string coverage_csv(const CoveredStep& step);

// A step result as CSV with the header `metric,value,unit`. Metrics are the paths of the JSON output, with dots between
// the parts; what was not computed has an empty value.
std::string to_csv(const model::StepResult& result);

// Memory of the ranks in a terminal: lines of at most 100 columns.

// Returns the table of ranks (of more than 16 those with the highest peaks) and the verdict. What is free and the
// margin are left when allocators have returned all that they can.
std::string memory_summary(const model::Memory& memory, Style style = {});

// Returns one rank over the step as stacked columns of letters, each the moment of highest use of its ops. The capacity
// is a dashed line, and the legend explains the letters.
std::string memory_plot(const model::RankLevels& levels, double capacity_bytes, Style style = {});

// Returns the changes that would make the plan fit with what they cost, or the one that comes closest.
std::string memory_advice(const model::MemoryAdvice& advice, double capacity_bytes, Style style = {});

// Returns one rank over the step as lines.
LineChart memory_chart(const model::RankLevels& levels, double capacity_bytes, const std::string& model);

}  // namespace plumbline::reports
