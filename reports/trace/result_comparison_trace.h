// The steps of all subjects in one trace, rank beside rank.
#pragma once

#include <string>

#include "model/base/error.h"
#include "model/result/comparison.h"

namespace plumbline::reports {

// A Chrome trace (reports/trace/trace.h) of all subjects with their processes in the order of ranks. Of one predicted
// and one measured step they are called "predicted rank 0 (...)", "measured rank 0"; else by the subjects' names. An
// input error names the subject that has no timeline.
model::Result<std::string> result_comparison_trace(const model::ResultComparison& comparison, bool gzip);

}  // namespace plumbline::reports
