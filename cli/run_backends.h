// A plan carried out by one of the backends.
#pragma once

#include "cli/inputs.h"
#include "cli/run_arguments.h"
#include "cli/world.h"

namespace plumbline::cli {

// The exit code. Arguments have been checked; results and errors are written by the process of rank 0.
int run_on_host(const RunArguments& arguments, const sim::Inputs& inputs, const World& world);
// 77 where there is no GPU that can be used.
int run_on_gpu(const RunArguments& arguments, const sim::Inputs& inputs, const World& world);

}  // namespace plumbline::cli
