// Figures of a chunk by name, the same for a measured and a predicted one. Seconds and shares:
//   chunk.time_s, chunk.compute_busy_s, chunk.compute_busy_share, chunk.communication_busy_s,
//   chunk.exposed_communication_s
//   chunk.span_s.attn(F).1      a phase of slot 1
//   chunk.period_s.2            from the end of attn(B) of slot 1 to that of slot 2
//   chunk.class_s.cast          a class of kernels
//   chunk.gemm_s.q_b.dgrad      a matrix product, mean over the slots
//   chunk.gemm_sum_s.dgrad+recompute  all products of these kinds, sum of their means
#pragma once

#include <optional>
#include <string_view>

#include "calibrate/chunk/chunk_summary.h"
#include "model/base/error.h"

namespace plumbline::calibrate {

inline constexpr std::string_view chunk_metric_prefix = "chunk.";

// nullopt when the chunk does not have it (or the metric is none).
std::optional<double> chunk_value(std::string_view metric, const ChunkSummary& chunk);

// Whether the name can be one: an unknown quantity is an input error with the nearest known name; the caller adds
// file and line.
model::Result<void> check_chunk_metric(std::string_view metric);

}  // namespace plumbline::calibrate
