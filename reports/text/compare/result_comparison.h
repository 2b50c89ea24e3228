// Results compared: as text, as JSON, as a picture and as one trace.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/result/comparison.h"
#include "reports/trace/trace.h"

namespace plumbline::reports {

std::string subject_letter(std::size_t index);  // A, B, ... Z, 27, 28, ...

// Returns the subjects, their figures in columns, where the step times differ, and predictions next to measurements.
// `color` (bold headings) is for terminals only.
std::string result_comparison_text(const model::ResultComparison& comparison, bool color);

// Returns tables of slots, parts, classes and overlapped pairs with predicted, measured and error, at most 80 columns
// wide.
std::string measured_pair_text(const model::ResultComparison::MeasuredPair& pair);

std::string result_comparison_json(const model::ResultComparison& comparison);
// Returns the tables one after the other: the first column is the list of the JSON output that a row is of.
std::string result_comparison_csv(const model::ResultComparison& comparison);

// Returns an SVG document with a waterfall for each difference.
std::string result_comparison_svg(const model::ResultComparison& comparison);

// Returns what a trace of all subjects consists of, with references to the comparison. A predicted and a measured step
// are labelled "predicted rank 0 (...)" and "measured rank 0"; others by the subjects' names. An input error names the
// subject that has no timeline.
model::Result<std::vector<TraceSubject>> trace_subjects(const model::ResultComparison& comparison);
// Returns those of the subjects that have a timeline.
std::vector<TraceSubject> recorded_subjects(const model::ResultComparison& comparison);

}  // namespace plumbline::reports
