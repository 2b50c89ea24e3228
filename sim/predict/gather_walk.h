// The recurrence of step_recurrence.h for zero_stage 3, where a rank gathers parameters before every use. It applies
// the rules of model/program/data_parallel.h in one pass over the rank's slots.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/predict/step_recurrence.h"

namespace plumbline::sim {

void walk_with_gathers(const StepRecurrence& step, bool alone, StepWalk& walk);

// Like mean_waits().
std::array<double, 5> mean_gather_waits(const StepRecurrence& step, std::size_t rank);

// Returns stage and unit of each gather of a rank in a step, repeats included.
std::vector<std::pair<std::int32_t, std::int32_t>> gathered_units(const StepRecurrence& step, std::size_t rank);

}  // namespace plumbline::sim
