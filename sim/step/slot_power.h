// The clock and the energy of a slot under the plan's power limit (model/cost/power_model.h). The limit holds for the
// mean over the slot's kernels, run back to back without other work on the GPU.
#pragma once

#include "model/program/program.h"
#include "sim/predict/cost_models.h"
#include "sim/step/segment_memo.h"

namespace plumbline::sim {

struct SlotPower {
  double clock = 1;   // of its kernels (model::Conditions::clock)
  double joules = 0;  // of its kernels, above what an idle GPU draws
};

// What the kernels of segments draw, for slots of one program under the same costs.
using PowerWindows = SegmentMemo<model::PowerWindow>;

// Returns the defaults where the profile has no power model.
SlotPower slot_power(const model::StepProgram& program, const model::SlotTemplate& slot, const CostModels& costs,
                     PowerWindows& windows);

}  // namespace plumbline::sim
