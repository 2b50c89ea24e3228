// What people look at while the ranks train: a line on stderr now and then, and a board.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/inputs.h"
#include "model/base/error.h"
#include "real/executor/training/trainer.h"
#include "real/measure/clock_reading.h"
#include "reports/tensorboard/tensorboard.h"

namespace plumbline::cli {

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

}  // namespace plumbline::cli
