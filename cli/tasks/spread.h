// Verbs whose work is spread over the processes of a job (mpirun, srun, torchrun), and that go on where an earlier run
// ended.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "cli/outputs.h"
#include "cli/world.h"
#include "model/base/error.h"
#include "sim/tasks/tasks.h"

namespace plumbline::cli {

// Adds --resume to a verb.
void add_resume(CLI::App& verb, std::string& resume);

// Runs a verb with its tasks and returns its exit code. Every process of the job runs the same verb with the same
// arguments, but for outputs and cores, and so comes to the same sets of tasks in the same order; rank 0 refuses
// others. It hands the tasks of a set out in batches on demand, computes too, keeps results in the file `resume`
// (empty: nowhere), and returns all of them to all processes, which go on with the same numbers. Only rank 0 prints,
// and writes `outputs`. Each process uses its share of the cores that it may run on. Tasks of a process that is lost
// are done by others; under MPI its loss ends the job.
int run_spread(const World& world, const CLI::App& verb, const std::string& resume, Outputs& outputs,
               const std::function<model::Result<int>(sim::Tasks& tasks)>& run);

}  // namespace plumbline::cli
