// Where the ranks of a run live: threads of this process, or processes that MPI started.
#pragma once

#include "model/base/error.h"
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

}  // namespace plumbline::cli
