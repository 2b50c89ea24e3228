// A trace of one GPU next to the predicted step of its pipeline rank, kernel by kernel.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/match/step_match.h"
#include "model/base/error.h"
#include "model/result/compared_time.h"
#include "model/result/timeline.h"
#include "sim/predict/inputs.h"

namespace plumbline::calibrate {

// Where the rank of a trace comes from. A pipeline rank that is given precedes the trace's own rank.
struct TraceOrigin {
  std::optional<std::int32_t> pipeline_rank;
  int rank = -1, world_size = 0;  // of the trace: its GPU among all, and their number; -1 and 0: unknown
};

// GEMMs of one shape and kind, means of one kernel.
struct ComparedGemm {
  std::string name, kind;           // of the first: "q_b", and fprop, dgrad, wgrad or recompute
  std::array<double, 4> extents{};  // m, n, k, groups
  std::int64_t count = 0;
  double predicted_s = 0, measured_s = 0;
  double flops = 0;

  std::string shape() const;  // "4096 x 24576 x 1536", with groups "4 x (8192 x 4096 x 7168)"
  double seconds_apart() const { return static_cast<double>(count) * (measured_s - predicted_s); }
};

struct UnmatchedKernels {
  std::string name;  // as the trace has it, else the class
  double seconds = 0;
  std::int64_t count = 0;
};

struct TraceDifference {
  std::string what;  // "GEMM 4096 x 7168 x 2048 (dgrad)"
  double predicted_s = 0, measured_s = 0;
  std::string advice;
};

struct TraceComparison {
  model::Timeline predicted;  // of the rank
  StepMatch match;
  std::int32_t rank = 0;
  std::string rank_source;  // how the rank was found, in words
  // Seconds of the rank's step, and of its kernels by what they do, by layer and by phase. Kernels that the trace does
  // not reach are left out of the prediction.
  std::vector<model::ComparedTime> totals, classes, layers, phases;
  // Kinds of communication: seconds while no kernel computes.
  std::vector<model::ComparedTime> exposed;
  std::vector<ComparedGemm> gemms;  // the most seconds first
  std::vector<UnmatchedKernels> unmatched;
  std::vector<TraceDifference> worst;  // the largest differences, ten at most
  double reached = 1;                  // share of the predicted kernel time that the trace spans
  std::vector<std::string> notes;      // what limits the comparison, as sentences
};

// Predicts the step with all kernels of the trace's pipeline rank, or where that is unknown of every rank, of which the
// best match is taken, and compares. Errors: those of the prediction; a rank that the plan does not have.
model::Result<TraceComparison> compare_trace(const model::Timeline& measured, const sim::Inputs& inputs,
                                             const TraceOrigin& origin);

}  // namespace plumbline::calibrate
