// Reading validation cases, shipped or given.
#pragma once

#include <string>
#include <vector>

#include "calibrate/validate/step_comparison.h"
#include "calibrate/validate/validation_case.h"
#include "model/base/error.h"

namespace plumbline::cli {

// One case with the measurements that it names: files beside it, or shipped ones.
model::Result<calibrate::ValidationCase> read_case(const std::string& path);

// Every case about figures of the shipped data, ordered by file name.
model::Result<std::vector<calibrate::ValidationCase>> shipped_cases();

// A case over published training steps (calibrate/validate/step_case.h) with all rows of its table predicted.
model::Result<calibrate::StepComparison> compare_case_steps(const std::string& path);

}  // namespace plumbline::cli
