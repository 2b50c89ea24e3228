// Quantities by name, the same for predictions and measurements, in SI units.
//
// Quantities of a step's result have the keys of the JSON output: "step.time_s", "step.slots_s.FB",
// "run.total_gpu_hours", and sums of them: "step.slots_s.B + step.slots_s.I".
//
// Quantities of a kernel trace of a chunk, in seconds and shares:
//   chunk.time_s, chunk.compute_busy_s, chunk.compute_busy_share, chunk.communication_busy_s,
//   chunk.exposed_communication_s
//   chunk.span_s.attn(F).1      a phase of slot 1
//   chunk.period_s.2            from the end of attn(B) of slot 1 to that of slot 2
//   chunk.class_s.cast          a class of kernels
//   chunk.gemm_s.q_b.dgrad      a GEMM, mean over the slots
//   chunk.gemm_sum_s.dgrad+recompute  all GEMMs of these kinds, sum of their means
#pragma once

#include <optional>
#include <string_view>

#include "model/base/error.h"
#include "model/result/result.h"
#include "model/result/timeline_comparison.h"

namespace plumbline::calibrate {

// Returns the value of a metric; nullopt when the result lacks it (or a term of the sum) or the name is no metric.
std::optional<double> metric_value(std::string_view metric, const model::StepResult& result);
std::optional<double> metric_value(std::string_view metric, const model::TimelineSummary& chunk);

// Whether a metric is read from a kernel trace.
bool of_chunk(std::string_view metric);

// Whether a step time alone, with the plan, determines the metric. Then a constant share of the peak predicts it too.
bool follows_from_step_time(std::string_view metric);

// Checks the name. An unknown one is an input error with the nearest known one; the caller adds file and line.
model::Result<void> check_metric(std::string_view metric);
// Checks the name, and refuses metrics of a chunk.
model::Result<void> check_step_metric(std::string_view metric);

}  // namespace plumbline::calibrate
