// Executes the step program of one rank on a device: the same schedule, segments and operators that are simulated.
#pragma once

#include <memory>

#include "model/base/error.h"
#include "real/executor/step/rank_state.h"
#include "real/executor/training/training_step.h"

namespace plumbline::real {

// Returns the step of the communicator's rank; the initial parameters do not depend on how the model is divided
// (parameter_part.h). Infeasible where the plan needs what can only be simulated (plan_support.h) or another number of
// ranks than the communicator has.
model::Result<std::unique_ptr<TrainingStep>> make_step(const StepInput& input);

// A parameter of a block, or its gradient after the last step, for tests of execution. Gradients are reduced where the
// plan does not shard them.
struct NamedBuffer {
  std::string name;           // place in the model, which also seeds the initial values: "layer 3 moe_layer/q_b"
  const model::Tensor* held;  // shape on this rank
  Buffer* buffer = nullptr;
};
// `step` is one that make_step() returned.
std::vector<NamedBuffer> parameters_of(TrainingStep& step);
std::vector<NamedBuffer> gradients_of(TrainingStep& step);

}  // namespace plumbline::real
