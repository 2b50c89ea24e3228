// Executes a launch script of Megatron-LM, so that what it starts need not be read from its text.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/megatron/import.h"

namespace plumbline::cli {

struct ScriptExecution {
  std::string script;
  std::vector<std::string> arguments;        // of the script
  model::megatron::Definitions environment;  // added to that of this process
  std::int64_t gpus_per_node = 8;            // what nvidia-smi answers
  std::chrono::milliseconds deadline = std::chrono::seconds(30);
};

// Runs the script in the user's own bash, in a new folder that is removed afterwards, without input. Programs that
// train, start others, change files elsewhere or reach out are replaced by recorders (recorder.h); everything else,
// such as redirections and programs named by their whole path, takes place. Slurm's variables in `environment` take
// precedence over the script's header. At the deadline, and where this process is interrupted, its processes are
// killed: until the deadline, what it started counts. Fails (input) where there is no bash or no folder can be made,
// and (interrupted) at an interruption.
model::Result<model::megatron::Execution> execute(const ScriptExecution& what);

}  // namespace plumbline::cli
