// Builds the result of a step from the measurements of all ranks, under the names of a prediction.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/base/error.h"
#include "model/plan/layout.h"
#include "model/plan/plan.h"
#include "model/profile/cluster.h"
#include "model/program/program.h"
#include "model/result/result.h"
#include "model/result/timeline.h"
#include "real/executor/training/training_step.h"

namespace plumbline::real {

// What one rank measured in one step.
struct RankMeasurement {
  std::int32_t world_rank = 0;
  model::Timeline timeline;
  std::vector<std::pair<std::string, double>> class_seconds;
  double memory_bytes = 0;  // Device::memory_bytes()
};
// Convert a measurement to text and back; infeasible where the text cannot be read.
std::string to_text(const RankMeasurement& measurement);
model::Result<RankMeasurement> rank_measurement(const std::string& text);

struct MeasuredStep {
  model::StepResult result;
  model::Timeline timeline;  // of the pipeline of data rank 0 and tensor rank 0
};

// Takes the measurements of all ranks, or of one that ran alone; times by kind of slot and by class are the first
// rank's. `seconds` is the step's duration on the slowest rank. Memory has the peak of each pipeline rank's fullest
// device; where a device measures none it is the model's prediction, with all its parts. Values that a measurement does
// not give (bound, interval, provenance) stay empty.
MeasuredStep measured_step(const model::Plan& plan, const model::Architecture& architecture,
                           const model::Layout& layout, const model::StepProgram& program,
                           const model::ClusterShape& cluster, const std::vector<RankMeasurement>& ranks,
                           double seconds);

}  // namespace plumbline::real
