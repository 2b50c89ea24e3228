// What `plumbline run` was asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/verb.h"
#include "model/base/error.h"
#include "real/executor/run.h"

namespace plumbline::cli {

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

// Options that are wrong, or that the backend does not have, as input errors.
model::Result<void> check_run_arguments(const RunArguments& arguments);

}  // namespace plumbline::cli
