// From a step time to days, GPU-hours and money.
#pragma once

#include <optional>

#include "model/plan.h"
#include "model/result.h"

namespace plumbline::model {

// nullopt without run.tokens. steps = tokens / (global batch * sequence length); GPU-hours = steps *
// step time * GPUs / 3600; phases stated in the plan are added with kind "published".
std::optional<RunCost> run_cost(const Plan& plan, double step_time_s);

}  // namespace plumbline::model
