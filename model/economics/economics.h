// From a step time to days, GPU-hours, money and energy.
#pragma once

#include <optional>

#include "model/plan/plan.h"
#include "model/profile/cluster.h"
#include "model/result/result.h"

namespace plumbline::model {

// nullopt without run.tokens. steps = tokens / (global batch * sequence length); GPU-hours = steps *
// step time * GPUs / 3600; phases stated in the plan are added with kind "published" and at the same price.
// Prices of a GPU-hour and its power: model/economics/ownership.h. A few dozen operations, no files: for any number of
// plans.
std::optional<RunCost> run_cost(const Plan& plan, double step_time_s, const ClusterShape& cluster);

}  // namespace plumbline::model
