// The ranks of a run: threads of this process, or processes that MPI or a launcher started.
#pragma once

#include <memory>

#include "model/base/error.h"
#include "real/bootstrap/bootstrap.h"
#include "real/host/comm/transport.h"
#include "real/host/device.h"

namespace plumbline::cli {

// The place of this process in a run.
struct World {
  bool is_root = true;                         // whether this process has rank 0, which writes the results
  real::host::Transport* transport = nullptr;  // of this process's rank; nullptr: all ranks are threads of it
  real::host::SimulatedTime simulated;         // of a simulated MPI, which supports no threads

  // Returns the exit code of the error. All processes of a job have the same errors; that of rank 0 prints them to
  // stderr.
  int report(const model::Error& error) const;
  // Returns the requested options, limited to those that this world supports.
  real::host::DeviceOptions device(real::host::DeviceOptions wanted) const;
};

// Runs the whole command line; returns the exit code.
int command(int argc, char** argv, const World& world);

// Returns the place of this process in the job. If mpirun started the ranks, its own channel connects them.
model::Result<real::Bootstrap> job_of(const World& world);

// Returns the channel over which the processes of the job agree; an error when it cannot be opened. All must have the
// same version and revision of the program, and the options' inputs; rank 0 prints whom it refuses to stderr.
model::Result<std::unique_ptr<real::ControlChannel>> channel_of(const real::Bootstrap& job, const World& world,
                                                                real::ChannelOptions options);

// Determines on every rank whether all ranks have a GPU; returns the exit code of the job, 0 when they have. Rank 0
// prints the reasons of those without.
model::Result<int> look_for_gpus(real::ControlChannel& channel, int device);

}  // namespace plumbline::cli
