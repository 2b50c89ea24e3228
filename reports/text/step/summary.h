// The report of a step in a terminal: lines of at most 80 columns, aligned tables.
#pragma once

#include <string>
#include <vector>

#include "model/plan/plan.h"
#include "model/result/result.h"
#include "reports/text/step/comparison.h"
#include "reports/text/table.h"
#include "reports/training_report.h"

namespace plumbline::reports {

std::string summary(const model::StepResult& result, const model::Plan& plan,
                    const std::vector<Comparison>& comparisons = {}, Style style = {});

// Returns the report of an executed step: its spread, slots by kind, time by class, the training.
std::string training_summary(const model::StepResult& result, const model::Plan& plan, const TrainingReport& training);

// Returns predicted and published values with the error; "" when there is nothing to compare.
std::string comparison_table(const std::vector<Comparison>& comparisons, Style style = {});

}  // namespace plumbline::reports
