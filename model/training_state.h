// Parameters, gradients and optimizer states that a pipeline rank holds through the whole step.
#pragma once

#include <cstdint>
#include <vector>

#include "model/layout.h"
#include "model/plan.h"
#include "model/program.h"
#include "model/units.h"

namespace plumbline::model {

struct StateBytes {
  Bytes parameters, gradients;
  Bytes optimizer;  // master weights and two moments, the rank's shard
};
struct TrainingState {
  StateBytes experts, others;
};

// Of a rank that holds `stages`. A parameter that blocks share counts once, also where its owner is on
// another rank and this one holds a copy.
TrainingState training_state(const Plan& plan, const Layout& layout, const StepProgram& program,
                             const std::vector<std::int64_t>& stages);

}  // namespace plumbline::model
