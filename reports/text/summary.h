// The report of a step in a terminal: lines of at most 80 columns, aligned tables.
#pragma once

#include <string>
#include <vector>

#include "model/plan/plan.h"
#include "model/result/result.h"
#include "reports/text/comparison.h"
#include "reports/text/paragraph.h"

namespace plumbline::reports {

std::string summary(const model::StepResult& result, const model::Plan& plan,
                    const std::vector<Comparison>& comparisons = {}, Style style = {});

// Predicted beside published with the error; "" when there is nothing to compare.
std::string comparison_table(const std::vector<Comparison>& comparisons, Style style = {});

}  // namespace plumbline::reports
