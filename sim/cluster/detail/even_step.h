// The step of a cluster whose GPUs are all alike, and what it takes without one cause of its bubble after the other.
#pragma once

#include "sim/step/step_executor.h"

namespace plumbline::sim {

// Returns the input without the predicted waits for the slowest rank: where every GPU runs, waits come from the run.
ExecutionInput without_waits(ExecutionInput input);

// Returns the input with messages between stages that take no time.
ExecutionInput without_messages(ExecutionInput input);

// Returns the input with the times of every slot scaled so that, on a GPU alone, it takes the mean over all slots of
// its type. The pipeline ranks together compute as long as before.
ExecutionInput with_mean_stages(ExecutionInput input);

}  // namespace plumbline::sim
