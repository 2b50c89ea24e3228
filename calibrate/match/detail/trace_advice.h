// The largest differences between a trace and its prediction, each with what may explain it.
#pragma once

#include <string>
#include <vector>

#include "calibrate/match/trace_comparison.h"

namespace plumbline::calibrate {

// Returns the row of a kernel in comparisons of steps: that of its class, a collective's kind, and one row of the tiny
// kernels that routers consist of.
std::string class_of_kernel(const model::Kernel& kernel);

// Returns the differences of at least a thousandth of the step by their seconds, ten at most: GEMMs by shape, other
// classes that compute, communication while nothing computes, and the time in which nothing runs.
std::vector<TraceDifference> worst_differences(const TraceComparison& comparison);

}  // namespace plumbline::calibrate
