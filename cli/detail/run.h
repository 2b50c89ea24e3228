// What `plumbline run` takes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/outputs.h"
#include "cli/verb.h"
#include "model/base/error.h"
#include "real/executor/inference/generate.h"
#include "real/executor/run.h"

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

}  // namespace plumbline::cli
