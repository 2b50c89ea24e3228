// Validation cases as people read them and as JSON.
#pragma once

#include <string>
#include <vector>

#include "calibrate/validate/case_evaluation.h"
#include "calibrate/validate/step_comparison.h"

namespace plumbline::reports {

// Every figure by every profile, what is tolerated of the plan's own, and the sources.
std::string validation_table(const calibrate::EvaluatedCase& evaluated);

// Published training steps beside predictions, their memory, the errors and what is tolerated.
std::string step_table(const calibrate::StepComparison& comparison);

std::string validation_json(const std::vector<calibrate::EvaluatedCase>& cases,
                            const std::vector<calibrate::StepComparison>& step_cases = {});

}  // namespace plumbline::reports
