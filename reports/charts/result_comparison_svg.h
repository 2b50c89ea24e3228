// Where the step times of results differ, as a picture.
#pragma once

#include <string>

#include "model/result/comparison.h"

namespace plumbline::reports {

// An SVG document with a waterfall for each difference.
std::string result_comparison_svg(const model::ResultComparison& comparison);

}  // namespace plumbline::reports
