// Whether a trace is of the run that a plan describes.
#pragma once

#include "calibrate/match/trace_comparison.h"
#include "model/profile/cluster.h"

namespace plumbline::calibrate {

// Undoes the matches of GEMMs whose rate is above the peak of the device, in the format of the trace or the plan: what
// ran there is something else.
void undo_impossible(const model::Timeline& predicted, const model::Timeline& measured, const model::Device& device,
                     StepMatch& match);

// Returns an error that states what differs where the trace is of another model, batch or layout: experts on one side
// alone; GEMMs that mostly have other FLOPs than those that they match, where the trace has their shapes; many kernels
// of the plan that the trace lacks in its middle, or of the trace that the plan lacks. Smaller differences of shapes
// are a note. Needs the classes and `covered` of the comparison.
model::Result<void> check_same_run(const model::Timeline& measured, TraceComparison& comparison);

}  // namespace plumbline::calibrate
