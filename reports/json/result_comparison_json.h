// Results side by side as JSON.
#pragma once

#include <string>

#include "model/result/comparison.h"

namespace plumbline::reports {

std::string result_comparison_json(const model::ResultComparison& comparison);

}  // namespace plumbline::reports
