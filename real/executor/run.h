// A plan carried out: every rank trains its part on its device, rank 0 tells what was measured.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/base/error.h"
#include "model/plan/plan.h"
#include "model/profile/cluster.h"
#include "real/executor/communicator.h"
#include "real/executor/device.h"
#include "real/executor/measured_result.h"
#include "real/executor/training/trainer.h"

namespace plumbline::real {

struct RunInput {
  model::Plan plan;
  model::Architecture architecture;
  model::ClusterShape cluster;
};

struct RunOptions {
  std::int64_t steps = 4;     // the first warms up and is not measured, where there are more
  double learning_rate = -1;  // negative: the optimizer's own
  double balance_speed = 0;   // of routing biases, after each step
  std::string text;           // a file whose bytes are the tokens; empty: made-up text
  std::string checkpoint;     // folder; empty: none
  std::int64_t checkpoint_interval = 0;
  bool resume = false;
  bool prefetch_thread = true;  // reads the next step's text meanwhile
  // The communicator stands in for all other ranks: what came from them is made up, so that the loss says nothing and
  // checkpoints, balance and the checks of a training do not apply. The rank measures itself alone.
  bool emulated = false;
};

struct RunResult {
  MeasuredStep step;  // the median step
  TrainingResult training;
  std::vector<double> measured_seconds;  // of the steps that count, the slowest rank's
};

// One rank's part. Every rank calls it with the same input and options. The result is rank 0's (an emulated rank's is
// its own), others return an empty one. An error is one on all ranks: either all of them return it, rank 0 with the
// whole reason, or the rank that alone knows of it ends the job.
model::Result<RunResult> run_rank(const RunInput& input, const RunOptions& options, Device& device,
                                  Communicator& communicator, const StepObserver& observer);

}  // namespace plumbline::real
