// The closed form of a step: the recurrence of step_recurrence.h, walked over all ranks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/predict/step_recurrence.h"
#include "sim/step/step_end.h"

namespace plumbline::sim {

struct StepWalk {
  struct Rank {
    GradientsReady ready;
    std::array<double, 5> longer{};  // s by op type that slots take longer than on a GPU alone
    double gather_wait = 0;          // s of these that slots wait for collectives
    double slowed = 0;               // s of these by which collectives make compute longer
  };
  std::vector<Rank> ranks;
  std::vector<double> class_longer;  // s that all slots of a slot class take longer
};

// Overwrites `walk`.
void walk_step(const StepRecurrence& step, StepWalk& walk);

// Returns stage and unit of each gather of a rank in a step with gathers_each, repeats included.
std::vector<std::pair<std::int32_t, std::int32_t>> gathered_units(const StepRecurrence& step, std::size_t rank);

}  // namespace plumbline::sim
