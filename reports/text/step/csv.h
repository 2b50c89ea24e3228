// A step result as CSV with the header `metric,value,unit`. Metrics are the paths of the JSON output, with dots between
// the parts; what was not computed has an empty value.
#pragma once

#include <string>
#include <string_view>

#include "model/result/result.h"

namespace plumbline::reports {

std::string to_csv(const model::StepResult& result);

// Returns a field of a CSV file: with a comma, quote or line break it is quoted, its quotes doubled (RFC 4180).
std::string csv_field(std::string_view text);

}  // namespace plumbline::reports
