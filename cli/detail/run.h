// The parts that the verb `run` and its backends share.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/inputs.h"
#include "cli/outputs.h"
#include "cli/verb.h"
#include "cli/world.h"
#include "model/base/error.h"
#include "real/executor/inference/generate.h"
#include "real/executor/run.h"
#include "real/executor/training/trainer.h"
#include "real/measure/clock_reading.h"
#include "reports/tensorboard/tensorboard.h"
#include "reports/training_report.h"

namespace plumbline::cli {

// The arguments of `plumbline run`.
struct RunArguments {
  PlanArguments plan;
  std::string backend = "host", trace_ranks, board;
  Outputs outputs;
  real::RunOptions options;
  std::optional<double> learning_rate;
  real::GenerateOptions generate;  // where it generates tokens instead of training
  // Options of the host only.
  std::optional<std::string> clock, accumulation;
  std::optional<int> cores, communication_cores;
  // Options of a GPU only.
  std::optional<int> device, target_sms, emulated;
  std::vector<std::string> library_folders;
  std::string kernels;
};

// Returns an input error for options that are wrong or that the backend does not have.
model::Result<void> check_run_arguments(const RunArguments& arguments);

// Live output of a training: lines on stderr, at most two per second, and a TensorBoard.
class RunMonitor {
 public:
  // peak_flops: of all ranks together, FLOP/s; flops_per_token: of training.
  RunMonitor(std::int64_t steps, double peak_flops, double flops_per_token)
      : steps_(steps), peak_flops_(peak_flops), flops_per_token_(flops_per_token) {}

  // Opens event files of TensorBoard in the folder; empty: none are written.
  model::Result<void> open(const std::string& folder);
  // Reports a step, with the readings of the device during it, where the device has any.
  void step(const real::StepFigures& figures, const real::ClockReading& reading = {});

  // Returns the error that ended the writing of the board, if any.
  const std::optional<model::Error>& failed() const { return failed_; }

 private:
  void show(const real::StepFigures& figures, const real::ClockReading& reading);

  std::int64_t steps_;
  double peak_flops_, flops_per_token_;
  std::optional<std::chrono::steady_clock::time_point> shown_;  // last time of a line
  std::optional<reports::TensorBoard> board_;
  std::optional<model::Error> failed_;
};

// Returns the monitor of a run of the plan.
RunMonitor monitor_of(const sim::Inputs& inputs, std::int64_t steps);

// Writes the requested files and prints the summary; returns the exit code. `report` has the backend's part: clock,
// emulated rank, memory, notes.
model::Result<int> write_run(const RunArguments& arguments, const sim::Inputs& inputs, const real::RunResult& result,
                             reports::TrainingReport report);

// Adds the options of generation, and checks that those of a training are not given with them.
void add_generate_options(CLI::App& verb, RunArguments& arguments);
model::Result<void> check_generate_arguments(const RunArguments& arguments);
// Generates tokens on the host with checked arguments; returns the exit code.
model::Result<int> generate_on_host(const RunArguments& arguments, const sim::Inputs& inputs, const World& world);
// Returns how the host runs the plan: cores, clock, formats.
model::Result<real::host::DeviceOptions> host_device(const RunArguments& arguments, const sim::Inputs& inputs,
                                                     const World& world);

// Execute a plan with checked arguments and return the exit code, 77 when there is no usable GPU. The process of rank 0
// writes the results.
model::Result<int> run_on_host(const RunArguments& arguments, const sim::Inputs& inputs, const World& world);
model::Result<int> run_on_gpu(const RunArguments& arguments, const sim::Inputs& inputs, const World& world);

}  // namespace plumbline::cli
