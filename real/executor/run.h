// Runs a plan: every rank trains its part on its device, and rank 0 returns what was measured.
#pragma once

#include <cstdint>
#include <functional>
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
#include "real/executor/communicator.h"
#include "real/executor/device.h"
#include "real/executor/training/trainer.h"
#include "real/executor/training/training_step.h"

namespace plumbline::real {

// What one rank measured in one step.
struct RankMeasurement {
  std::int32_t world_rank = 0;
  model::Timeline timeline;
  std::vector<std::pair<std::string, double>> class_seconds;
  double memory_bytes = 0;  // Device::memory_bytes()
};

struct MeasuredStep {
  model::StepResult result;
  model::Timeline timeline;  // of the pipeline of data rank 0 and tensor rank 0
};

// Builds the result of a step, under the names of a prediction, from the measurements of all ranks, or of one that ran
// alone; times by kind of slot and by class are the first rank's. `seconds` is the step's duration on the slowest rank.
// Memory has the peak of each pipeline rank's fullest device; where a device measures none it is the model's
// prediction, with all its parts. Values that a measurement does not give (bound, interval, provenance) stay empty.
MeasuredStep measured_step(const model::Plan& plan, const model::Architecture& architecture,
                           const model::Layout& layout, const model::StepProgram& program,
                           const model::ClusterShape& cluster, const std::vector<RankMeasurement>& ranks,
                           double seconds);

struct RunInput {
  model::Plan plan;
  model::Architecture architecture;
  model::ClusterShape cluster;
};

struct RunOptions {
  std::int64_t steps = 4;     // the first is a warm-up and is not measured, unless it is the only one
  double learning_rate = -1;  // negative: the optimizer's own
  double balance_speed = 0;   // amount by which routing biases move after each step
  std::string text;           // a file whose bytes are the tokens; empty: synthetic text
  std::string checkpoint;     // folder; empty: none
  std::int64_t checkpoint_interval = 0;
  bool resume = false;
  bool prefetch_thread = true;         // a thread reads the next step's text
  std::function<bool()> stopped = {};  // as in TrainingOptions
  // The communicator emulates all other ranks with synthetic data and the rank measures itself alone. The loss is then
  // meaningless, and checkpoints, expert balance and the checks of a training do not apply.
  bool emulated = false;
};

struct RunResult {
  MeasuredStep step;  // the median step
  TrainingResult training;
  std::vector<double> measured_seconds;  // [measured step], on the slowest rank
  double issue_seconds = 0;              // CPU time per operator of the thread that issues them, in the median step
};

// Runs one rank's part. Every rank calls it with the same input and options. Rank 0 and an emulated rank return the
// result, other ranks an empty one. An error of one rank is an error on all: either all return it, rank 0 with the
// whole reason, or the failing rank ends the job.
model::Result<RunResult> run_rank(const RunInput& input, const RunOptions& options, Device& device,
                                  Communicator& communicator, const StepObserver& observer);

}  // namespace plumbline::real
