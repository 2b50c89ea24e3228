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
// alone; GEMMs that mostly have other FLOPs than those that they match, where the trace has their shapes; many GEMMs
// and attentions that the plan lacks, or of a whole step that the trace lacks. Smaller differences of shapes are a
// note. Needs the classes of the comparison.
model::Result<void> check_same_run(const model::Timeline& measured, bool whole_step, TraceComparison& comparison);

}  // namespace plumbline::calibrate
