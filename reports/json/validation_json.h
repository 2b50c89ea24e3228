// Validation cases beside their predictions as JSON.
#pragma once

#include <string>
#include <vector>

#include "calibrate/validate/case_evaluation.h"
#include "calibrate/validate/step_comparison.h"

namespace plumbline::reports {

std::string validation_json(const std::vector<calibrate::EvaluatedCase>& cases,
                            const std::vector<calibrate::StepComparison>& step_cases = {});

}  // namespace plumbline::reports
