// Converts a step time to days, GPU-hours, money and energy.
#pragma once

#include <optional>

#include "model/plan/plan.h"
#include "model/profile/cluster.h"
#include "model/result/result.h"

namespace plumbline::model {

// Returns nullopt without run.tokens. steps = tokens / (global batch * sequence length); GPU-hours = steps * step time
// * GPUs / 3600. Phases stated in the plan are added with kind "published" at the same price. The price and power of a
// GPU-hour are those of model/economics/ownership.h. gpu_power_w is what a GPU draws on average, where that is known;
// else it is taken to draw its limit. It is cheap and reads no files.
std::optional<RunCost> run_cost(const Plan& plan, double step_time_s, const ClusterShape& cluster,
                                std::optional<double> gpu_power_w = std::nullopt);

}  // namespace plumbline::model
