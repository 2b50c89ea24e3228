// The whole training that a predicted step belongs to.
#pragma once

#include <cstdint>
#include <optional>

#include "model/result/result.h"
#include "sim/predict/inputs.h"

namespace plumbline::sim {

// Returns the nodes of a data-parallel replica of the plan, which an elastic campaign loses as a whole.
std::int64_t replica_nodes(const model::Plan& plan, std::int64_t gpus_per_node);

// Returns model::run_cost() of a step of the plan; where run.goodput is "campaign" its goodput is the closed form of
// inputs.campaign (sim/campaign/campaign.h) with a phase of this step time. Nothing without run.tokens.
std::optional<model::RunCost> predicted_run(const Inputs& inputs, const model::Plan& plan,
                                            const model::StepTimes& step);

}  // namespace plumbline::sim
