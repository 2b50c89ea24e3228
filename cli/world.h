// Where the ranks of a run live: threads of this process, or processes that MPI or a launcher started.
#pragma once

#include <memory>

#include "model/base/error.h"
#include "real/bootstrap/bootstrap.h"
#include "real/host/comm/transport.h"
#include "real/host/device.h"

namespace plumbline::cli {

struct World {
  bool speaks = true;                          // this process holds rank 0, which writes what a run gives
  real::host::Transport* transport = nullptr;  // of this process's rank; nullptr: all ranks are threads of it
  real::host::SimulatedTime simulated;         // of a simulated MPI, which knows no threads

  // The exit code of the error. Every process of a job sees the same ones; that of rank 0 prints it to stderr.
  int report(const model::Error& error) const;
  // What the user asked for, as this world can have it.
  real::host::DeviceOptions device(real::host::DeviceOptions wanted) const;
};

// The whole command line; returns the exit code.
int command(int argc, char** argv, const World& world);

// Who this process is in the job. mpirun's own channel is used where it started the ranks.
model::Result<real::Bootstrap> job_of(const World& world);

model::Result<std::unique_ptr<real::ControlChannel>> channel_of(const real::Bootstrap& job, const World& world);

// Whether every rank has a GPU, as all of them learn it: the exit code of the job, 0 where they have. Rank 0 prints
// what the ranks lack.
model::Result<int> look_for_gpus(real::ControlChannel& channel, int device);

}  // namespace plumbline::cli
