// What the verb `run` and the backends that carry it out share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/inputs.h"
#include "cli/verb.h"
#include "cli/world.h"
#include "model/base/error.h"
#include "real/executor/run.h"
#include "real/executor/training/trainer.h"
#include "real/measure/clock_reading.h"
#include "reports/tensorboard/tensorboard.h"
#include "reports/training_report.h"

namespace plumbline::cli {

// What `plumbline run` was asked for.
struct RunArguments {
  PlanArguments plan;
  std::string backend = "host", json, trace, board;
  real::RunOptions options;
  // Of the host alone.
  std::optional<std::string> clock, accumulation;
  std::optional<int> cores, communication_cores;
  // Of a GPU alone.
  std::optional<int> device, target_sms, emulated;
  std::vector<std::string> library_folders;
  std::string kernels;
};

// Returns options that are wrong, or that the backend does not have, as input errors.
model::Result<void> check_run_arguments(const RunArguments& arguments);

// What people look at while the ranks train: a line on stderr now and then, and a board.
class RunMonitor {
 public:
  // peak_flops: of all ranks together, FLOP/s; flops_per_token: of training.
  RunMonitor(std::int64_t steps, double peak_flops, double flops_per_token)
      : steps_(steps), peak_flops_(peak_flops), flops_per_token_(flops_per_token) {}

  // Event files of TensorBoard go to the folder; empty: none are written.
  model::Result<void> open(const std::string& folder);
  // With what the device read while the step ran, where it has something to read.
  void step(const real::StepFigures& figures, const real::ClockReading& reading = {});

  // Why the board was given up.
  const std::optional<model::Error>& failed() const { return failed_; }

 private:
  void show(const real::StepFigures& figures, const real::ClockReading& reading);

  std::int64_t steps_;
  double peak_flops_, flops_per_token_;
  double shown_ = 0;  // when, in seconds since 1970
  std::optional<reports::TensorBoard> board_;
  std::optional<model::Error> failed_;
};

// Of a run of the plan.
RunMonitor monitor_of(const sim::Inputs& inputs, std::int64_t steps);

// Writes the files that were asked for and prints the summary; the exit code. `report` has what the backend says of the
// run: clock, emulated rank, memory, notes.
model::Result<int> write_run(const RunArguments& arguments, const sim::Inputs& inputs, const real::RunResult& result,
                             reports::TrainingReport report);

// Both carry out a plan. Arguments have been checked. What is returned is the exit code, 77 where there is no GPU that
// can be used; results are written by the process of rank 0.
model::Result<int> run_on_host(const RunArguments& arguments, const sim::Inputs& inputs, const World& world);
model::Result<int> run_on_gpu(const RunArguments& arguments, const sim::Inputs& inputs, const World& world);

}  // namespace plumbline::cli
