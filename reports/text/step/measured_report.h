// A measured step next to its prediction, as sentences and tables.
#pragma once

#include <string>

#include "model/result/result.h"

namespace plumbline::reports {

// Returns "Slower than 97 of 100 such runs: look for ...". Only an impossible step needs its lower bound.
std::string verdict_sentence(const model::MeasuredStep& measured, double bound_s);
// Returns the same of a measured peak of memory.
std::string memory_verdict(const model::MeasuredMemory& memory);

// Returns what was measured, where it lies, by which convention, and what may have made it longer or shorter. Requires
// result.measured, and the interval that it is held against.
std::string measured_section(const model::StepResult& result);

}  // namespace plumbline::reports
