// Results side by side: as people read them, as JSON, as a picture and as one trace.
#pragma once

#include <cstddef>
#include <string>

#include "model/base/error.h"
#include "model/result/comparison.h"

namespace plumbline::reports {

std::string subject_letter(std::size_t index);  // A, B, ... Z, 27, 28, ...

// Subjects, figures side by side, where the step times differ, and predictions beside what was measured. Colour (bold
// headings) only for a terminal.
std::string result_comparison_text(const model::ResultComparison& comparison, bool color);

// Tables of slots, parts, classes and overlapped pairs with predicted, measured and error, at most 80 columns wide.
std::string measured_pair_text(const model::ResultComparison::MeasuredPair& pair);

std::string result_comparison_json(const model::ResultComparison& comparison);

// An SVG document with a waterfall for each difference.
std::string result_comparison_svg(const model::ResultComparison& comparison);

// A Chrome trace (reports/trace/trace.h) of all subjects with their processes in the order of ranks. Of one predicted
// and one measured step they are called "predicted rank 0 (...)", "measured rank 0"; else by the subjects' names. An
// input error names the subject that has no timeline.
model::Result<std::string> result_comparison_trace(const model::ResultComparison& comparison, bool gzip);

}  // namespace plumbline::reports
