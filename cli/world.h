// Where the ranks of a run live: threads of this process, or processes that MPI started.
#pragma once

#include <functional>
#include <string>

#include "model/error.h"
#include "real/host/run.h"

namespace plumbline::cli {

struct World {
  bool speaks = true;  // this process holds rank 0, which writes what a run gives
  // Runs this process's ranks; of a process that does not speak the result is empty.
  std::function<model::Result<real::host::RunResult>(const real::host::RunInput&, real::host::RunOptions,
                                                     const real::StepObserver&)>
      run;
  bool simulated = false;  // its clock is that of a simulated MPI
};

World world_of_threads();

// The whole command line; returns the exit code.
int command(int argc, char** argv, const World& world);

}  // namespace plumbline::cli
