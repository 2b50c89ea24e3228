// Quantities of a step's result by the keys of the JSON output: "step.time_s", "step.slots_s.FB",
// "run.total_gpu_hours", and sums of them: "step.slots_s.B + step.slots_s.I".
#pragma once

#include <optional>
#include <string_view>

#include "model/base/error.h"
#include "model/result/result.h"

namespace plumbline::calibrate {

// The value in the unit of its key; nullopt when the result lacks it (or a term of the sum).
// Requires a metric that check_metric accepts.
std::optional<double> metric_value(std::string_view metric, const model::StepResult& result);

// Whether a step time alone determines the metric, beside what the plan says. Then a constant share of
// the peak predicts it too.
bool follows_from_step_time(std::string_view metric);

// An unknown key is an input error with the nearest known one; the caller adds file and line.
model::Result<void> check_metric(std::string_view metric);

}  // namespace plumbline::calibrate
