// Training logs as measured steps (sim/analysis/measured_step.h): what Megatron-LM, Megatron-DeepSpeed,
// Megatron-Bridge, NeMo, torchtitan and DeepSpeed print of each step, as launchers pass it on
// (calibrate/import/printed_lines.h).
#pragma once

#include <string>
#include <string_view>

#include "model/base/error.h"
#include "model/plan/plan.h"
#include "sim/analysis/measured_step.h"

namespace plumbline::calibrate {

// Returns whether the text has a line of a step.
bool is_training_log(std::string_view text);

// Returns the step of a log: the median of its steps without the first and without those that a pause or warm-up made
// longer, which are further from the median of the second half than 3.5 scaled absolute deviations and than 5 %; the
// largest peak of memory that a rank states; and how much of the log that is. Lines of steps that are cut, or have
// another line inside, are left out and counted. Input errors: no step, or another global batch, sequence length or
// number of GPUs than the plan's, with both numbers.
model::Result<sim::Measurement> parse_training_log(std::string_view text, const std::string& path,
                                                   const model::Plan& plan);

}  // namespace plumbline::calibrate
