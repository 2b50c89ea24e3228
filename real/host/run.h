// Runs a plan on this machine: every rank trains its part, rank 0 tells what was measured.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "model/architecture.h"
#include "model/cluster.h"
#include "model/error.h"
#include "model/plan.h"
#include "real/executor/measured_result.h"
#include "real/executor/trainer.h"
#include "real/host/device.h"
#include "real/host/transport.h"

namespace plumbline::real::host {

struct RunInput {
  model::Plan plan;
  model::Architecture architecture;
  model::ClusterShape cluster;
};

struct RunOptions {
  DeviceOptions device;
  std::int64_t steps = 4;     // the first warms up and is not measured, where there are more
  double learning_rate = -1;  // negative: the optimizer's own
  double balance_speed = 0;   // of routing biases, after each step
  std::string text;           // a file whose bytes are the tokens; empty: made-up text
  std::string checkpoint;     // folder; empty: none
  std::int64_t checkpoint_interval = 0;
  bool resume = false;
};

struct RunResult {
  MeasuredStep step;  // the median step
  TrainingResult training;
  std::vector<double> measured_seconds;  // of the steps that count, the slowest rank's
};

// One rank's part. Every rank calls it with the same input and options. The result is rank 0's, others return an empty
// one. An error is one on all ranks: either all of them return it, rank 0 with the whole reason, or the rank that
// alone knows of it ends the job.
model::Result<RunResult> run_rank(const RunInput& input, const RunOptions& options, Transport& transport,
                                  const StepObserver& observer);

// All ranks as threads of this process; the observer is rank 0's.
model::Result<RunResult> run_in_process(const RunInput& input, const RunOptions& options, const StepObserver& observer);

}  // namespace plumbline::real::host
