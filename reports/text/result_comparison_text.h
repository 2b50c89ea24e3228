// Results side by side as people read them.
#pragma once

#include <cstddef>
#include <string>

#include "model/result/comparison.h"

namespace plumbline::reports {

std::string subject_letter(std::size_t index);  // A, B, ... Z, 27, 28, ...

// Subjects, figures side by side, where the step times differ, and predictions beside what was measured. Colour (bold
// headings) only for a terminal.
std::string result_comparison_text(const model::ResultComparison& comparison, bool colour);

// Tables of slots, parts, classes and overlapped pairs with predicted, measured and error, at most 80 columns wide.
std::string measured_pair_text(const model::ResultComparison::MeasuredPair& pair);

}  // namespace plumbline::reports
