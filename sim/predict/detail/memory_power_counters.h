// The memory and the power of each rank over a step by events, as counters of its timeline.
#pragma once

#include "model/program/program.h"
#include "model/result/result.h"
#include "model/result/timeline.h"
#include "sim/predict/plan_work.h"

namespace plumbline::sim {

// Adds them to a timeline of the program. Memory is that of the highest moment of each slot, until the next one begins;
// state is parameters, gradients, optimizer states and reserve. Power, where the profile has a model of it, is the mean
// over a slot or over the update, and that of an idle GPU between them.
void add_memory_and_power(PlanWork& work, const model::StepProgram& program, const model::Memory& memory,
                          model::Timeline& timeline);

}  // namespace plumbline::sim
