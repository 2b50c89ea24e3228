// Executes the step program of one rank on a device: the same schedule, segments and operators that are simulated.
#pragma once

#include <memory>

#include "model/base/error.h"
#include "real/executor/step/rank_state.h"
#include "real/executor/training/training_step.h"

namespace plumbline::real {

// The step of the communicator's rank, with parameters as every division of the model begins (parameter_part.h).
// Infeasible where the plan asks for what is simulated only (plan_support.h) or for another number of ranks than the
// communicator has.
model::Result<std::unique_ptr<TrainingStep>> make_step(const StepInput& input);

// A gradient as the last step left it, for tests of execution: of a block's parameter, after reduction where the plan
// does not shard. `name` is that of the parameter's place in the model, as initial values know it.
struct NamedBuffer {
  std::string name;           // "layer 3 moe_layer/q_b"
  const model::Tensor* held;  // shape on this rank
  Buffer* buffer = nullptr;
};
// Of a step that make_step() made.
std::vector<NamedBuffer> parameters_of(TrainingStep& step);
std::vector<NamedBuffer> gradients_of(TrainingStep& step);

}  // namespace plumbline::real
