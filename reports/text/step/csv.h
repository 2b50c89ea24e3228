// A step result as CSV with the header `metric,value,unit`. Metrics are the paths of the JSON output, with dots between
// the parts; what was not computed has an empty value.
#pragma once

#include <string>

#include "model/result/result.h"

namespace plumbline::reports {

std::string to_csv(const model::StepResult& result);

}  // namespace plumbline::reports
