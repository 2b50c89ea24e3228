// The processes that use GPUs together: one rank each, or this one alone.
#pragma once

#include <memory>

#include "cli/world.h"
#include "model/base/error.h"
#include "real/bootstrap/bootstrap.h"

namespace plumbline::cli {

// Who this process is in the job. mpirun's own channel is used where it started the ranks.
model::Result<real::Bootstrap> job_of(const World& world);

model::Result<std::unique_ptr<real::ControlChannel>> channel_of(const real::Bootstrap& job, const World& world);

// Whether every rank has a GPU, as all of them learn it: the exit code of the job, 0 where they have. Rank 0 prints
// what the ranks lack.
model::Result<int> look_for_gpus(real::ControlChannel& channel, int device);

}  // namespace plumbline::cli
