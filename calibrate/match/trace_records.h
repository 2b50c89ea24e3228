// A trace that was matched with a plan as measurements, to which profiles are fitted.
#pragma once

#include <string>

#include "calibrate/match/trace_comparison.h"
#include "calibrate/measurement/measurement.h"

namespace plumbline::calibrate {

// Returns a record for each distinct operator of the plan with a kernel of its own in the trace: its shape, FLOPs and
// bytes are the plan's, its time the median over the step, with the launch gap after it. They have the form of `measure
// --plan` (variant in_step). Kernels that ran while a collective or an all-to-all did are taken only where no other of
// the operator is there; collectives hold the wait for the other ranks; the expert all-to-all is left out. Notes state
// all of this. The median launch gap is a record of its own.
Measurements trace_records(const model::Timeline& measured, const TraceComparison& comparison,
                           const std::string& device, const std::string& path);

}  // namespace plumbline::calibrate
