// What a prediction assumes of the software where its plan leaves it open, and by how much it moves the prediction.
#pragma once

#include <vector>

#include "model/base/error.h"
#include "model/result/result.h"
#include "sim/predict/inputs.h"

namespace plumbline::sim {

// Returns the keys that the plan leaves open and that make the step more than a twentieth longer or shorter with
// another usual value (model/plan/alternative.h), those that move it most first: of each key the likeliest such value
// that the software and the device have, and that fits in memory where the plan does. Each is a closed form. Errors:
// those of Predictor::closed_form() on the plan as it is.
model::Result<std::vector<model::AssumedKey>> assumed_of_step(const Inputs& inputs);

// Returns the same of a deployment that serves: of its time per output token with as many requests in flight. Errors:
// those of ServingPredictor::predict().
model::Result<std::vector<model::AssumedKey>> assumed_of_deployment(const Inputs& inputs, double concurrency);

}  // namespace plumbline::sim
