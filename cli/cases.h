// Published figures beside predictions: the shipped validation cases.
#pragma once

#include <string>
#include <vector>

#include "calibrate/validation_case.h"
#include "model/error.h"
#include "model/result.h"
#include "reports/comparison.h"

namespace plumbline::cli {

// One case with the measurements that it names: files beside it, or shipped ones.
model::Result<calibrate::ValidationCase> read_case(const std::string& path);

// Every case of the shipped data, ordered by file name.
model::Result<std::vector<calibrate::ValidationCase>> shipped_cases();

// The figures of the cases whose plan has the name of `plan_file` (without folder and extension), in
// order; those that the result does not have are left out.
std::vector<reports::Comparison> comparisons(const std::vector<calibrate::ValidationCase>& cases,
                                             const std::string& plan_file, const model::StepResult& result);

}  // namespace plumbline::cli
